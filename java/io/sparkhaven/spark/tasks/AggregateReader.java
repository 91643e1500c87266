package io.sparkhaven.spark.tasks;

import io.sparkhaven.spark.pushdown.TaskAggregates;
import java.io.IOException;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads all rows of a task, and has one row for each partition value of them, or one if nothing is grouped by. */
final class AggregateReader implements PartitionReader<InternalRow> {
  private static final UTF8String ALL = UTF8String.EMPTY_UTF8;

  private final PartitionReader<ColumnarBatch> batches;
  private final TaskAggregates asked;
  private final Map<UTF8String, Group> groups = new LinkedHashMap<>();
  private Iterator<Map.Entry<UTF8String, Group>> results;
  private InternalRow row;

  AggregateReader(PartitionReader<ColumnarBatch> batches, TaskAggregates asked) {
    this.batches = batches;
    this.asked = asked;
  }

  /** What is known of one partition value. */
  private static final class Group {
    private final TextExtreme[] extremes; // by aggregate; null: it counts rows
    private long rows;

    Group(TaskAggregates asked) {
      extremes = new TextExtreme[asked.size()];
      for (int number = 0; number < extremes.length; number++) {
        extremes[number] = asked.isCount(number) ? null : new TextExtreme(asked.isGreatest(number));
      }
    }

    void add(ColumnarBatch batch, TaskAggregates asked) {
      rows += batch.numRows();
      for (int number = 0; number < extremes.length; number++) {
        if (extremes[number] != null) {
          extremes[number].add(batch.column(asked.column(number)), batch.numRows());
        }
      }
    }

    Object result(int number) {
      return extremes[number] == null ? (Object) rows : extremes[number].result();
    }
  }

  @Override
  public boolean next() throws IOException {
    if (results == null) {
      readAll();
      results = groups.entrySet().iterator();
    }
    if (!results.hasNext()) {
      return false;
    }
    Map.Entry<UTF8String, Group> group = results.next();
    int by = asked.isGrouped() ? 1 : 0;
    Object[] values = new Object[by + asked.size()];
    if (asked.isGrouped()) {
      values[0] = group.getKey();
    }
    for (int number = 0; number < asked.size(); number++) {
      values[by + number] = group.getValue().result(number);
    }
    row = new GenericInternalRow(values);
    return true;
  }

  private void readAll() throws IOException {
    if (!asked.isGrouped()) {
      groups.put(ALL, new Group(asked));
    }
    while (batches.next()) {
      ColumnarBatch batch = batches.get();
      if (batch.numRows() > 0) {
        groups.computeIfAbsent(key(batch), unknown -> new Group(asked)).add(batch, asked);
      }
    }
  }

  /** The partition value of a batch, whose rows are of one location. */
  private UTF8String key(ColumnarBatch batch) {
    if (!asked.isGrouped()) {
      return ALL;
    }
    ColumnVector values = batch.column(asked.groupColumn());
    return values.getUTF8String(0);
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public void close() throws IOException {
    batches.close();
  }
}
