package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;

/**
 * Rows that the driver has: few that it has read, what it made of them, or aggregates that the plan alone answers. No
 * task is started for them.
 *
 * @param counted slices whose rows were counted without their files; of none else
 */
record DriverScan(
    String description, StructType readSchema, InternalRow[] found, SnapshotCheck check, List<PlannedSlice> counted)
    implements LocalScan, SupportsReportStatistics {
  /** UncheckedIOException: rows that are counted were rolled back since. */
  @Override
  public InternalRow[] rows() {
    try {
      check.requireCounted(counted.stream().map(PlannedSlice::location).toList());
    } catch (IOException error) {
      throw new UncheckedIOException(error.getMessage(), error);
    }
    return found.clone();
  }

  @Override
  public Statistics estimateStatistics() {
    return new PlanScan.Estimate((long) found.length * readSchema.defaultSize(), found.length);
  }
}
