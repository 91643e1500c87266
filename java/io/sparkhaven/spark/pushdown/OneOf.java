package io.sparkhaven.spark.pushdown;

import java.util.Arrays;
import java.util.List;

/** Whether a value is one of some literals. With a null among them it is true or null. */
final class OneOf extends ColumnTest {
  private static final long serialVersionUID = 1;

  private final ValueOrder order;
  private final Object[] literals; // ascending
  private final boolean orNull;

  /** {@code literals}: none of them null; {@code orNull}: one more is. */
  OneOf(String column, ValueOrder order, List<Object> literals, boolean orNull) {
    super(column);
    this.order = order;
    this.literals = literals.toArray();
    this.orNull = orNull;
    Arrays.sort(this.literals, order::compare);
  }

  @Override
  int outcomes(ColumnValues values) {
    int miss = orNull ? Outcomes.NULL : Outcomes.FALSE;
    int outcomes = values.nulls() && (literals.length > 0 || orNull) ? Outcomes.NULL : 0;
    if (values.nulls() && outcomes == 0) {
      outcomes = Outcomes.FALSE;
    }
    if (values.nans()) {
      outcomes |= order == ValueOrder.DOUBLES ? between(Double.NaN, Double.NaN, miss) : Outcomes.TRUE | miss;
    }
    if (values.others()) {
      outcomes |= values.bounded() ? between(values.low(), values.high(), miss) : Outcomes.TRUE | miss;
    }
    return outcomes;
  }

  /** A null among the literals is equal to nothing. */
  @Override
  public Lookup lookup() {
    return new Lookup.Keys(column, order, List.of(literals));
  }

  private int between(Object low, Object high, int miss) {
    int place = Arrays.binarySearch(literals, low, order::compare);
    int next = place < 0 ? -place - 1 : place;
    boolean hit = next < literals.length && order.compare(literals[next], high) <= 0;
    boolean always = place >= 0 && order.compare(low, high) == 0;
    return (hit ? Outcomes.TRUE : 0) | (always ? 0 : miss);
  }
}
