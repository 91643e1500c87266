package io.sparkhaven.spark.tasks;

import org.apache.spark.sql.connector.read.InputPartition;

/** What one task of Spark reads: slices in the order of the plan. */
public record ReadTask(TaskSlice[] slices) implements InputPartition {}
