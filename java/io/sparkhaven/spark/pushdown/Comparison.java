package io.sparkhaven.spark.pushdown;

import java.util.List;

/** A value compared with a literal that is not null. Of a null it is null, or, where the operator is {@code <=>}, false. */
final class Comparison extends ColumnTest {
  private static final long serialVersionUID = 1;

  private final ValueOrder order;
  private final String operator;
  private final Object literal;

  /** {@code operator}: one of =, <=>, <, <=, >, >=. */
  Comparison(String column, ValueOrder order, String operator, Object literal) {
    super(column);
    this.order = order;
    this.operator = operator;
    this.literal = literal;
  }

  @Override
  int outcomes(ColumnValues values) {
    int outcomes = 0;
    if (values.nulls()) {
      outcomes |= operator.equals("<=>") ? Outcomes.FALSE : Outcomes.NULL;
    }
    if (values.nans()) {
      outcomes |= order == ValueOrder.DOUBLES ? between(Double.NaN, Double.NaN) : Outcomes.TRUE | Outcomes.FALSE;
    }
    if (values.others()) {
      outcomes |= values.bounded() ? between(values.low(), values.high()) : Outcomes.TRUE | Outcomes.FALSE;
    }
    return outcomes;
  }

  @Override
  public Lookup lookup() {
    return operator.equals("=") || operator.equals("<=>") ? new Lookup.Keys(column, order, List.of(literal)) : null;
  }

  private int between(Object lowest, Object highest) {
    int low = order.compare(lowest, literal);
    int high = order.compare(highest, literal);
    return switch (operator) {
      case "=", "<=>" -> outcomes(low <= 0 && high >= 0, low != 0 || high != 0);
      case "<" -> outcomes(low < 0, high >= 0);
      case "<=" -> outcomes(low <= 0, high > 0);
      case ">" -> outcomes(high > 0, low <= 0);
      case ">=" -> outcomes(high >= 0, low < 0);
      default -> throw new IllegalArgumentException("operator " + operator);
    };
  }

  private static int outcomes(boolean isTrue, boolean isFalse) {
    return (isTrue ? Outcomes.TRUE : 0) | (isFalse ? Outcomes.FALSE : 0);
  }
}
