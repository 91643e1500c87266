package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.Plan;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Python's table, but its batches are read by Java if there is a plan. */
public final class DeephavenTable implements SupportsRead, SupportsWrite {
  private final Table python;
  private final Plan plan;
  private final String reason;

  /**
   * A table.
   *
   * @param python Python's; null: the table is a batch of Java only
   * @param plan what Java reads; null: Python reads
   * @param reason why Python reads; empty if nobody was asked
   */
  DeephavenTable(Table python, Plan plan, String reason) {
    this.python = python;
    this.plan = plan;
    this.reason = reason;
  }

  /** A pinned snapshot, which Java reads. */
  public DeephavenTable(Plan plan) {
    this(null, plan, "");
  }

  /** What {@code explain} shows: the table that Java reads, or why Python reads. */
  @Override
  public String name() {
    if (plan != null) {
      return plan.table();
    }
    return reason.isEmpty() ? python.name() : python.name() + " (by Python: " + reason + ")";
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return python == null ? plan.schema() : python.schema();
  }

  @Override
  public Column[] columns() {
    return python == null ? SupportsRead.super.columns() : python.columns();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return python == null ? EnumSet.of(TableCapability.BATCH_READ) : python.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    SupportsRead readable = (SupportsRead) python;
    if (plan == null) {
      return readable.newScanBuilder(options);
    }
    return new PlanScanBuilder(
        plan, checkpoint -> readable.newScanBuilder(options).build().toMicroBatchStream(checkpoint));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) python).newWriteBuilder(info);
  }
}
