package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import java.util.Comparator;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The order of a column's values in Spark, and what bounds and literals are in it: {@code Long} of whole numbers,
 * Instants and Booleans, {@code Double}, or {@code UTF8String}. Each is exact in the column's own type.
 */
enum ValueOrder {
  /** Whole numbers as they are. */
  NUMBERS(Comparator.comparing(value -> (Long) value)) {
    @Override
    Object bound(Object stored) {
      return stored instanceof Long ? stored : null;
    }

    @Override
    Object literal(Object value) {
      return value instanceof Number number ? (Object) number.longValue() : null;
    }
  },

  /** Nanoseconds that Spark has as microseconds, rounded down. */
  MICROSECONDS(Comparator.comparing(value -> (Long) value)) {
    @Override
    Object bound(Object stored) {
      return stored instanceof Long nanoseconds ? (Object) Math.floorDiv(nanoseconds, 1000L) : null;
    }

    @Override
    Object literal(Object value) {
      return value instanceof Long ? value : null;
    }
  },

  /** False is less than true. */
  BOOLEANS(Comparator.comparing(value -> (Long) value)) {
    @Override
    Object bound(Object stored) {
      return stored instanceof Boolean truth ? (Object) (truth ? 1L : 0L) : null;
    }

    @Override
    Object literal(Object value) {
      return bound(value);
    }
  },

  /** Both zeros are equal, NaN is equal to itself and the largest. Files may have whole numbers. */
  DOUBLES((left, right) -> compareDoubles((Double) left, (Double) right)) {
    @Override
    Object bound(Object stored) {
      return stored instanceof Number number ? (Object) number.doubleValue() : null;
    }

    @Override
    Object literal(Object value) {
      return bound(value);
    }
  },

  /** By code point, which is the order of bytes in UTF-8. */
  TEXTS((left, right) -> ((UTF8String) left).binaryCompare((UTF8String) right)) {
    @Override
    Object bound(Object stored) {
      return stored instanceof UTF8String ? stored : null;
    }

    @Override
    Object literal(Object value) {
      return bound(value);
    }
  };

  private final Comparator<Object> comparator;

  ValueOrder(Comparator<Object> comparator) {
    this.comparator = comparator;
  }

  /** A bound of statistics; null: it is none in this order. */
  abstract Object bound(Object stored);

  /** A literal as Spark has it inside; null: it is none of this type. */
  abstract Object literal(Object value);

  int compare(Object left, Object right) {
    return comparator.compare(left, right);
  }

  /** The order of a column; null: there is none that statistics and Spark share. */
  static ValueOrder of(PlannedColumn column) {
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
      default -> null;
    };
  }

  private static int compareDoubles(double left, double right) {
    if (left == right) {
      return 0;
    }
    return Double.compare(left, right);
  }
}
