package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.Plan;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A pinned snapshot of a table. It has no state of any query. */
public final class PlanTable implements SupportsRead {
  private final Plan plan;

  public PlanTable(Plan plan) {
    this.plan = plan;
  }

  @Override
  public String name() {
    return plan.table();
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return plan.schema();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new PlanScanBuilder(plan, StreamMaker.NONE);
  }
}
