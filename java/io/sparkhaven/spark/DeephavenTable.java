package io.sparkhaven.spark;

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
final class DeephavenTable implements SupportsRead, SupportsWrite {
  private final Table python;
  private final PlanAnswer answer;

  DeephavenTable(Table python, PlanAnswer answer) {
    this.python = python;
    this.answer = answer;
  }

  /** What {@code explain} shows: the table that Java reads, or why Python reads. */
  @Override
  public String name() {
    if (answer.plan() != null) {
      return answer.plan().table();
    }
    return answer.reason().isEmpty() ? python.name() : python.name() + " (by Python: " + answer.reason() + ")";
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return python.schema();
  }

  @Override
  public Column[] columns() {
    return python.columns();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return python.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    SupportsRead readable = (SupportsRead) python;
    if (answer.plan() == null) {
      return readable.newScanBuilder(options);
    }
    return new PlanScanBuilder(
        answer.plan(), checkpoint -> readable.newScanBuilder(options).build().toMicroBatchStream(checkpoint));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) python).newWriteBuilder(info);
  }
}
