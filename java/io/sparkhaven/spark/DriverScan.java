package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedSlice;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;

/** Few rows that the driver has read, or what it made of them. No task is started for them. */
final class DriverScan implements LocalScan, SupportsReportStatistics {
  private final Plan plan;
  private final StructType schema;
  private final List<PlannedSlice> slices;
  private final InternalRow[] rows;

  /** {@code slices}: what was read. */
  DriverScan(Plan plan, StructType schema, List<PlannedSlice> slices, InternalRow[] rows) {
    this.plan = plan;
    this.schema = schema;
    this.slices = slices;
    this.rows = rows;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public InternalRow[] rows() {
    return rows.clone();
  }

  @Override
  public Statistics estimateStatistics() {
    return new Estimate(OptionalLong.of((long) rows.length * schema.defaultSize()), OptionalLong.of(rows.length));
  }

  @Override
  public String description() {
    return "sparkhaven %s, %d of %d locations, read by the driver: %d rows of %s"
        .formatted(
            plan.table(), slices.size(), plan.slices().size(), rows.length, String.join(", ", schema.fieldNames()));
  }
}
