package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.pushdown.RowFilter;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Queue;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads all rows of a task, and has a row for each group of them; of very many groups several. Without groups it has
 * one row, also of no rows.
 */
public final class AggregateReader implements PartitionReader<InternalRow> {
  private static final int MOST_GROUPS = 1 << 16; // that are held

  private final PartitionReader<ColumnarBatch> batches;
  private final AskedAggregates asked;
  private final RowFilter filter;
  private final Queue<InternalRow> results = new ArrayDeque<>();
  private boolean ended;
  private boolean overflowed;

  /**
   * A reader of batches that have the columns that are asked for, and then others.
   *
   * @param filter rows for which it does not hold are left out; null: none is
   */
  public AggregateReader(
      PartitionReader<ColumnarBatch> batches, AskedAggregates asked, RowFilter filter) {
    this.batches = batches;
    this.asked = asked;
    this.filter = filter;
  }

  @Override
  public boolean next() throws IOException {
    results.poll();
    while (results.isEmpty() && !ended) {
      read();
    }
    return !results.isEmpty();
  }

  /** Adds rows up to the last one, or until there are too many groups. */
  private void read() throws IOException {
    Groups groups = new Groups(asked, filter);
    boolean mixed = filter != null || asked.isMixed();
    Accumulator[] accumulators =
        asked.functions().stream().map(function -> Accumulator.of(function, mixed)).toArray(Accumulator[]::new);
    ended = true;
    while (batches.next()) {
      ColumnarBatch batch = batches.get();
      if (batch.numRows() > 0) {
        add(batch, groups.of(batch), groups.size(), accumulators);
      }
      if (groups.size() > MOST_GROUPS) {
        ended = false;
        break;
      }
    }
    for (Accumulator accumulator : accumulators) {
      accumulator.reserve(groups.size());
    }
    for (int group = 0; group < groups.size(); group++) {
      Object[] row = row(groups, group, accumulators);
      for (int number = 0; number < accumulators.length; number++) {
        row[row.length - accumulators.length + number] = accumulators[number].result(group);
      }
      results.add(new GenericInternalRow(row));
    }
    addOverflow(groups, accumulators);
  }

  private void add(ColumnarBatch batch, int[] numbers, int groups, Accumulator[] accumulators) {
    for (int number = 0; number < accumulators.length; number++) {
      PlannedColumn column = asked.functions().get(number).column();
      ColumnVector values = column == null ? null : batch.column(asked.place(column));
      accumulators[number].reserve(groups);
      accumulators[number].add(values, batch.numRows(), numbers);
    }
  }

  /** Further rows of a group, in each of which one sum has a value. */
  private void addOverflow(Groups groups, Accumulator[] accumulators) {
    for (int number = 0; number < accumulators.length; number++) {
      for (Accumulator.Part part : accumulators[number].overflow()) {
        Object[] row = row(groups, part.group(), accumulators);
        row[row.length - accumulators.length + number] = part.sum();
        overflowed = true;
        results.add(new GenericInternalRow(row));
      }
    }
  }

  private static Object[] row(Groups groups, int group, Accumulator[] accumulators) {
    Stream<Object> nothing = Arrays.stream(accumulators).map(Accumulator::nothing);
    return Stream.concat(groups.key(group).stream(), nothing).toArray();
  }

  /** Whether a group had more than one row, as a sum did not fit. */
  public boolean hasOverflow() {
    return overflowed;
  }

  @Override
  public InternalRow get() {
    return results.peek();
  }

  @Override
  public void close() throws IOException {
    batches.close();
  }
}
