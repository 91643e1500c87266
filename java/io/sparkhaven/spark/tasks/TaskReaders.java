package io.sparkhaven.spark.tasks;

import io.sparkhaven.spark.JarSources;
import io.sparkhaven.spark.aggregates.AggregateReader;
import io.sparkhaven.spark.aggregates.AskedAggregates;
import io.sparkhaven.spark.columns.ColumnOpener;
import io.sparkhaven.spark.files.Checksums;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.pushdown.ColumnCondition;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Goes with every task of a query, and makes its reader. */
public final class TaskReaders implements PartitionReaderFactory {
  private static final long serialVersionUID = 1;

  private final PlannedColumn[] columns;
  private final String checksums;
  private final SnapshotCheck check;
  private final ColumnCondition[] conditions;
  private final AskedAggregates asked;
  private final String jar = JarSources.digest();

  /**
   * Readers of these columns.
   *
   * @param checksums option {@code checksumVerify}: read, open, scrub or off
   * @param check of the snapshot that the slices are of
   * @param conditions of some of the columns, all of which must be true for a row to be of use
   * @param asked what tasks answer instead of rows; null: they return rows
   */
  public TaskReaders(
      PlannedColumn[] columns,
      String checksums,
      SnapshotCheck check,
      List<ColumnCondition> conditions,
      AskedAggregates asked) {
    this.asked = asked;
    this.conditions = conditions.toArray(ColumnCondition[]::new);
    this.columns = columns;
    this.checksums = checksums;
    this.check = check;
  }

  @Override
  public boolean supportColumnarReads(InputPartition task) {
    return asked == null;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition task) {
    return new AggregateReader(createColumnarReader(task), asked, null);
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition task) {
    JarSources.requireSame(jar);
    ColumnOpener opener = new ColumnOpener(Checksums.of(checksums));
    return new TaskReader(((ReadTask) task).slices(), columns, opener, check, conditions);
  }
}
