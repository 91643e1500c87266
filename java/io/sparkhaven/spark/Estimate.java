package io.sparkhaven.spark;

import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Statistics;

/** What Spark plans joins with. */
record Estimate(OptionalLong sizeInBytes, OptionalLong numRows) implements Statistics {}
