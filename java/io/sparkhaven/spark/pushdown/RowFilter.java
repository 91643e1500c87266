package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Filters of a query that are applied to each row, and are exact: Spark need not apply them. */
public final class RowFilter {
  private static final ColumnValues NULL = new ColumnValues(true, false, false, null, null);
  private static final ColumnValues NAN = new ColumnValues(false, true, false, null, null);
  private static final ColumnValues ANY = new ColumnValues(false, false, true, null, null);

  private final List<RowTest> tests;

  RowFilter(List<RowTest> tests) {
    this.tests = List.copyOf(tests);
  }

  /** Names of the columns that it asks. */
  public List<String> columns() {
    Set<String> names = new LinkedHashSet<>();
    tests.forEach(test -> test.addColumns(names));
    return new ArrayList<>(names);
  }

  /** The filter over batches that have these columns. */
  public OfBatches over(PlannedColumn[] columns) {
    return new OfBatches(tests, columns);
  }

  /** A filter of rows of one batch after the other. */
  public static final class OfBatches {
    private final List<RowTest> tests;
    private final Map<String, Integer> places = new HashMap<>();
    private final RowValues[] values;
    private final Function<String, ColumnValues> current = this::current;
    private ColumnarBatch batch;
    private int row;

    private OfBatches(List<RowTest> tests, PlannedColumn[] columns) {
      this.tests = tests;
      values = new RowValues[columns.length];
      for (int number = 0; number < columns.length; number++) {
        places.put(columns[number].name(), number);
        values[number] = RowValues.of(columns[number]);
      }
    }

    /** Whether all filters are true for a row. */
    public boolean holds(ColumnarBatch batch, int row) {
      this.batch = batch;
      this.row = row;
      for (RowTest test : tests) {
        if (test.outcomes(current) != Outcomes.TRUE) {
          return false;
        }
      }
      return true;
    }

    private ColumnValues current(String name) {
      int place = places.get(name);
      ColumnVector column = batch.column(place);
      if (column.isNullAt(row)) {
        return NULL;
      }
      if (values[place] == null) {
        return ANY;
      }
      Object value = values[place].ordered(values[place].internal(column, row));
      return value instanceof Double number && number.isNaN() ? NAN : ColumnValues.one(value);
    }
  }
}
