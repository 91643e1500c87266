package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The order of a column's values in Spark, and what bounds, literals and values of rows are in it: {@code Long} of whole
 * numbers, Instants, dates, times and Booleans, {@code BigInteger} of decimals, {@code Double}, or {@code UTF8String}.
 * Each is exact in the column's own type.
 */
public enum ValueOrder {
  /** Whole numbers as they are, days of dates, nanoseconds of times. */
  NUMBERS,
  /** Nanoseconds that Spark has as microseconds, rounded down. */
  MICROSECONDS,
  /** False is less than true. */
  BOOLEANS,
  /** Both zeros are equal, NaN is equal to itself and the largest. Files may have whole numbers. */
  DOUBLES,
  /** Units of the last digit. A literal has the digits behind the point that its column has. */
  DECIMALS,
  /** UTF-16 units as texts of one character. Half of a character is none. */
  CHARACTERS,
  /** By code point, which is the order of bytes in UTF-8. */
  TEXTS;

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

  /** A bound of statistics; null: it is none in this order. */
  public Object bound(Object stored) {
    return switch (this) {
      case NUMBERS -> stored instanceof Long ? stored : null;
      case MICROSECONDS -> stored instanceof Long nanoseconds ? Math.floorDiv(nanoseconds, 1000L) : null;
      case BOOLEANS -> stored instanceof Boolean truth ? (truth ? 1L : 0L) : null;
      case DOUBLES -> stored instanceof Number number ? number.doubleValue() : null;
      case DECIMALS -> stored instanceof Long units ? BigInteger.valueOf(units) : null;
      case CHARACTERS ->
          stored instanceof Long unit && !Character.isSurrogate((char) (long) unit)
              ? UTF8String.fromString(String.valueOf((char) (long) unit))
              : null;
      case TEXTS -> stored instanceof UTF8String ? stored : null;
    };
  }

  /** A literal, or a value of a row, of a column's type as Spark has it inside; null: it is none of this order. */
  public Object of(Object internal, DataType type) {
    return switch (this) {
      case NUMBERS ->
          internal instanceof Number number && !(number instanceof Double || number instanceof Float)
              ? number.longValue()
              : null;
      case MICROSECONDS -> internal instanceof Long ? internal : null;
      case BOOLEANS, DOUBLES -> bound(internal);
      case DECIMALS -> {
        boolean fits =
            internal instanceof Decimal && type instanceof DecimalType decimals
                && ((Decimal) internal).toJavaBigDecimal().scale() == decimals.scale();
        yield fits ? ((Decimal) internal).toJavaBigDecimal().unscaledValue() : null;
      }
      case CHARACTERS, TEXTS -> internal instanceof UTF8String ? internal : null;
    };
  }

  /** What Spark has inside for a bound of a column of that type. */
  public static Object internal(Object bound, DataType type) {
    if (bound instanceof BigInteger units && type instanceof DecimalType decimals) {
      return Decimal.apply(new BigDecimal(units, decimals.scale()), decimals.precision(), decimals.scale());
    }
    if (bound instanceof Double number && type.equals(DataTypes.FloatType)) {
      return number.floatValue();
    }
    if (!(bound instanceof Long number)) {
      return bound;
    }
    if (type.equals(DataTypes.BooleanType)) {
      return number != 0;
    }
    Object narrow =
        switch (type.defaultSize()) {
          case 1 -> number.byteValue();
          case 2 -> number.shortValue();
          case 4 -> number.intValue();
          default -> number;
        };
    return narrow;
  }

  /** A value that is not null in the form that Spark has inside. It stays when the batch has gone. */
  public static Object internal(ColumnVector values, int row) {
    Object value = new ColumnarArray(values, row, 1).get(0, values.dataType());
    return value instanceof UTF8String text ? text.copy() : value;
  }

  /** Below, at or above 0, as the first value is less than the other, equal to it or greater. */
  public int compare(Object left, Object right) {
    return switch (this) {
      case NUMBERS, MICROSECONDS, BOOLEANS -> Long.compare((Long) left, (Long) right);
      case DOUBLES -> (double) left == (double) right ? 0 : Double.compare((double) left, (double) right);
      case DECIMALS -> ((BigInteger) left).compareTo((BigInteger) right);
      case CHARACTERS, TEXTS -> ((UTF8String) left).binaryCompare((UTF8String) right);
    };
  }
}
