package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedAggregates;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** Aggregates that the plan alone answers. No file of rows is opened. */
final class AnsweredScan implements LocalScan {
  private final Plan plan;
  private final PushedAggregates aggregates;
  private final List<PlannedSlice> slices;

  AnsweredScan(Plan plan, PushedAggregates aggregates, List<PlannedSlice> slices) {
    this.plan = plan;
    this.aggregates = aggregates;
    this.slices = slices;
  }

  @Override
  public StructType readSchema() {
    return aggregates.schema();
  }

  /** UncheckedIOException: rows that are counted were rolled back since. */
  @Override
  public InternalRow[] rows() {
    List<LocationRef> locations = slices.stream().map(PlannedSlice::location).toList();
    try {
      SnapshotCheck.of(plan.part("pins")).requireCounted(locations);
    } catch (IOException error) {
      throw new UncheckedIOException(error.getMessage(), error);
    }
    return aggregates.rows();
  }

  @Override
  public String description() {
    return "sparkhaven " + plan.table() + ", from the plan: " + aggregates;
  }
}
