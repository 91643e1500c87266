package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Comparator;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The order of a column's values in Spark, and what bounds and literals are in it: {@code Long} of whole numbers,
 * Instants, dates, times and Booleans, {@code BigInteger} of decimals, {@code Double}, or {@code UTF8String}. Each is
 * exact in the column's own type.
 */
public enum ValueOrder {
  /** Whole numbers as they are, days of dates, nanoseconds of times. */
  NUMBERS(Comparator.comparing(value -> (Long) value)) {
    @Override
    public Object bound(Object stored) {
      return stored instanceof Long ? stored : null;
    }

    @Override
    Object literal(Object value, DataType type) {
      return value instanceof Number number && !(value instanceof Double || value instanceof Float)
          ? (Object) number.longValue()
          : null;
    }
  },

  /** Nanoseconds that Spark has as microseconds, rounded down. */
  MICROSECONDS(Comparator.comparing(value -> (Long) value)) {
    @Override
    public Object bound(Object stored) {
      return stored instanceof Long nanoseconds ? (Object) Math.floorDiv(nanoseconds, 1000L) : null;
    }

    @Override
    Object literal(Object value, DataType type) {
      return value instanceof Long ? value : null;
    }
  },

  /** False is less than true. */
  BOOLEANS(Comparator.comparing(value -> (Long) value)) {
    @Override
    public Object bound(Object stored) {
      return stored instanceof Boolean truth ? (Object) (truth ? 1L : 0L) : null;
    }

    @Override
    Object literal(Object value, DataType type) {
      return bound(value);
    }
  },

  /** Both zeros are equal, NaN is equal to itself and the largest. Files may have whole numbers. */
  DOUBLES((left, right) -> compareDoubles((Double) left, (Double) right)) {
    @Override
    public Object bound(Object stored) {
      return stored instanceof Number number ? (Object) number.doubleValue() : null;
    }

    @Override
    Object literal(Object value, DataType type) {
      return bound(value);
    }
  },

  /** Units of the last digit. A literal has the digits behind the point that its column has. */
  DECIMALS(Comparator.comparing(value -> (BigInteger) value)) {
    @Override
    public Object bound(Object stored) {
      return stored instanceof Long units ? (Object) BigInteger.valueOf(units) : null;
    }

    @Override
    Object literal(Object value, DataType type) {
      if (!(value instanceof Decimal decimal && type instanceof DecimalType decimals)) {
        return null;
      }
      BigDecimal exact = decimal.toJavaBigDecimal();
      return exact.scale() == decimals.scale() ? exact.unscaledValue() : null;
    }
  },

  /** UTF-16 units as texts of one character. Half of a character is none. */
  CHARACTERS((left, right) -> ((UTF8String) left).binaryCompare((UTF8String) right)) {
    @Override
    public Object bound(Object stored) {
      return stored instanceof Long unit && !Character.isSurrogate((char) (long) unit)
          ? UTF8String.fromString(String.valueOf((char) (long) unit))
          : null;
    }

    @Override
    Object literal(Object value, DataType type) {
      return value instanceof UTF8String ? value : null;
    }
  },

  /** By code point, which is the order of bytes in UTF-8. */
  TEXTS((left, right) -> ((UTF8String) left).binaryCompare((UTF8String) right)) {
    @Override
    public Object bound(Object stored) {
      return stored instanceof UTF8String ? stored : null;
    }

    @Override
    Object literal(Object value, DataType type) {
      return bound(value);
    }
  };

  private final Comparator<Object> comparator;

  ValueOrder(Comparator<Object> comparator) {
    this.comparator = comparator;
  }

  /** A bound of statistics; null: it is none in this order. */
  public abstract Object bound(Object stored);

  /** A literal of a column's type as Spark has it inside; null: it is none of this order. */
  abstract Object literal(Object value, DataType type);

  /** Below, at or above 0, as the first value is less than the other, equal to it or greater. */
  public int compare(Object left, Object right) {
    return comparator.compare(left, right);
  }

  /** The order of a column; null: there is none that statistics and Spark share. */
  public static ValueOrder of(PlannedColumn column) {
    if (column.partitioning()) {
      return TEXTS;
    }
    DataType type = column.type();
    return switch (column.form().type()) {
      case "byte", "short", "int", "long" -> NUMBERS;
      case "float", "double" -> DOUBLES;
      case "Boolean" -> BOOLEANS;
      case "String" -> type.equals(DataTypes.StringType) ? TEXTS : null;
      case "Instant" -> type.equals(DataTypes.TimestampType) ? MICROSECONDS : NUMBERS;
      case "char" -> type.equals(DataTypes.StringType) ? CHARACTERS : NUMBERS;
      default -> column.form().coding() == null ? null : ofCoding(type);
    };
  }

  /** Of values with a codec statistics bound dates, times, and decimals of at most 38 digits. */
  private static ValueOrder ofCoding(DataType type) {
    if (type instanceof DecimalType) {
      return DECIMALS;
    }
    return type.equals(DataTypes.DateType) || type.equals(DataTypes.LongType) ? NUMBERS : null;
  }

  private static int compareDoubles(double left, double right) {
    if (left == right) {
      return 0;
    }
    return Double.compare(left, right);
  }
}
