package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Values of one column, row by row. */
public final class RowValues {
  private final DataType type;
  private final ValueOrder order;

  private RowValues(DataType type, ValueOrder order) {
    this.type = type;
    this.order = order;
  }

  /** Those of a column that has an order; null: it has none. */
  public static RowValues of(PlannedColumn column) {
    ValueOrder order = ValueOrder.of(column);
    return order == null ? null : new RowValues(column.type(), order);
  }

  /** A value that is not null, in the form that Spark has inside. It stays when the batch has gone. */
  public Object internal(ColumnVector values, int row) {
    if (type instanceof StringType) {
      return values.getUTF8String(row).copy();
    }
    if (type instanceof DecimalType decimals) {
      return values.getDecimal(row, decimals.precision(), decimals.scale());
    }
    if (type instanceof DoubleType) {
      return values.getDouble(row);
    }
    if (type instanceof FloatType) {
      return values.getFloat(row);
    }
    if (type instanceof BooleanType) {
      return values.getBoolean(row);
    }
    if (type instanceof ByteType) {
      return values.getByte(row);
    }
    if (type instanceof ShortType) {
      return values.getShort(row);
    }
    boolean four = type instanceof IntegerType || type instanceof DateType;
    return four ? (Object) values.getInt(row) : (Object) values.getLong(row);
  }

  /** Such a value in the form of the column's {@link ValueOrder}. */
  Object ordered(Object internal) {
    return switch (order) {
      case NUMBERS, MICROSECONDS -> ((Number) internal).longValue();
      case BOOLEANS -> (Boolean) internal ? 1L : 0L;
      case DOUBLES -> ((Number) internal).doubleValue();
      case DECIMALS -> ((Decimal) internal).toJavaBigDecimal().unscaledValue();
      case CHARACTERS, TEXTS -> internal;
    };
  }

  /** Below, at or above 0, as a value in Spark's form is less than another one, equal to it or greater. */
  public int compare(Object left, Object right) {
    return order.compare(ordered(left), ordered(right));
  }
}
