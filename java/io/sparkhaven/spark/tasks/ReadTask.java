package io.sparkhaven.spark.tasks;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** What one task of Spark reads: slices in the order of the plan. */
public final class ReadTask implements InputPartition {
  private static final long serialVersionUID = 1;

  private final TaskSlice[] slices;

  ReadTask(List<TaskSlice> slices) {
    this.slices = slices.toArray(TaskSlice[]::new);
  }

  /** In the order of the plan. */
  public TaskSlice[] slices() {
    return slices;
  }
}
