package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Filters of a query that are applied to each row of batches, and are exact: Spark need not apply them. */
public final class RowFilter {
  private static final ColumnValues ANY = new ColumnValues(false, false, true, null, null);

  private final List<RowTest> tests;
  private final PlannedColumn[] columns;
  private final Map<String, Integer> places = new HashMap<>();
  private final Function<String, ColumnValues> current = this::current;
  private ColumnarBatch batch;
  private int row;

  /** {@code columns}: of the batches. */
  RowFilter(List<RowTest> tests, PlannedColumn[] columns) {
    this.tests = tests;
    this.columns = columns;
    for (int number = 0; number < columns.length; number++) {
      places.put(columns[number].name(), number);
    }
  }

  /** Whether all filters are true for a row. */
  public boolean holds(ColumnarBatch batch, int row) {
    this.batch = batch;
    this.row = row;
    return tests.stream().allMatch(test -> test.outcomes(current) == Outcomes.TRUE);
  }

  private ColumnValues current(String name) {
    int place = places.get(name);
    ColumnVector values = batch.column(place);
    ValueOrder order = ValueOrder.of(columns[place]);
    if (values.isNullAt(row)) {
      return ColumnValues.one(null);
    }
    return order == null ? ANY : ColumnValues.one(order.of(ValueOrder.internal(values, row), columns[place].type()));
  }
}
