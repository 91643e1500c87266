package io.sparkhaven.spark.pushdown;

import java.util.Set;
import java.util.function.Function;

/** A condition of one column and literals. */
abstract class ColumnTest implements RowTest {
  private static final long serialVersionUID = 1;

  final String column;

  ColumnTest(String column) {
    this.column = column;
  }

  /** What it may be for rows with such values. */
  abstract int outcomes(ColumnValues values);

  @Override
  public final int outcomes(Function<String, ColumnValues> values) {
    return outcomes(values.apply(column));
  }

  @Override
  public final void addColumns(Set<String> names) {
    names.add(column);
  }

  @Override
  public boolean exact() {
    return true;
  }

  /** Whether a value is null. */
  static final class IsNull extends ColumnTest {
    private static final long serialVersionUID = 1;

    IsNull(String column) {
      super(column);
    }

    @Override
    int outcomes(ColumnValues values) {
      return (values.nulls() ? Outcomes.TRUE : 0) | (values.nans() || values.others() ? Outcomes.FALSE : 0);
    }
  }
}
