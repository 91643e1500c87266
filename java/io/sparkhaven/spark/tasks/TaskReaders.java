package io.sparkhaven.spark.tasks;

import io.sparkhaven.spark.plan.PlannedColumn;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Goes with every task of a query, and makes its reader. */
public final class TaskReaders implements PartitionReaderFactory {
  private static final long serialVersionUID = 1;

  private final PlannedColumn[] columns;

  /** Readers of these columns. */
  public TaskReaders(PlannedColumn[] columns) {
    this.columns = columns;
  }

  @Override
  public boolean supportColumnarReads(InputPartition task) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition task) {
    throw new UnsupportedOperationException("rows one by one");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition task) {
    return new TaskReader(((ReadTask) task).slices(), columns);
  }
}
