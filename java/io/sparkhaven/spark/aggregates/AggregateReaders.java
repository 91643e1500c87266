package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.tasks.TaskReaders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * Goes with every task of a query whose aggregates its tasks answer.
 *
 * @param readers of the columns that are asked for
 */
public record AggregateReaders(TaskReaders readers, AskedAggregates asked) implements PartitionReaderFactory {
  private static final long serialVersionUID = 1;

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition task) {
    return new AggregateReader(readers.createColumnarReader(task), asked, null);
  }
}
