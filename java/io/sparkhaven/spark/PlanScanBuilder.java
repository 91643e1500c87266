package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.Plan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;

/** What one query asks of a snapshot. */
final class PlanScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns {
  private final Plan plan;
  private StructType required;

  PlanScanBuilder(Plan plan) {
    this.plan = plan;
    this.required = plan.schema();
  }

  @Override
  public void pruneColumns(StructType columns) {
    required = columns;
  }

  @Override
  public Scan build() {
    return new PlanScan(plan, required, plan.slices());
  }
}
