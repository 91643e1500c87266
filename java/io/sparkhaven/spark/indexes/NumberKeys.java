package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.codings.DamagedValue;
import io.sparkhaven.spark.codings.Decoders;
import io.sparkhaven.spark.codings.RefusedValue;
import io.sparkhaven.spark.codings.ValueDecoder;
import io.sparkhaven.spark.plan.ColumnForm;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.pushdown.ValueOrder;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;

/** Keys of one width: numbers, Instants, and what a codec makes of dates, times and decimals. */
final class NumberKeys extends IndexKeys {
  private final IndexBytes data;
  private final ColumnForm form;
  private final PlannedColumn column;
  private final ValueOrder order;
  private final ValueDecoder decoder; // null: keys are plain numbers
  private final OnHeapColumnVector decoded;

  NumberKeys(IndexBytes data, ColumnForm form, PlannedColumn column) {
    this.data = data;
    this.form = form;
    this.column = column;
    this.order = ValueOrder.of(column);
    this.decoder = form.coding() == null ? null : Decoders.of(form.coding());
    this.decoded = decoder == null ? null : new OnHeapColumnVector(1, column.type());
  }

  @Override
  long size() {
    return data.size() / form.width();
  }

  @Override
  Object key(long number) throws IOException, DamagedValue {
    if (decoder != null) {
      return decoded(data.copy(number * form.width(), (number + 1) * form.width()));
    }
    long entry = data.numberAt(number * form.width(), form.width());
    return switch (form.type()) {
      case "float" -> {
        float value = Float.intBitsToFloat((int) entry);
        yield value == -Float.MAX_VALUE ? null : order.bound((double) value);
      }
      case "double" -> {
        double value = Double.longBitsToDouble(entry);
        yield value == -Double.MAX_VALUE ? null : order.bound(value);
      }
      default -> entry == -1L << 8 * form.width() - 1 ? null : order.bound(entry);
    };
  }

  @Override
  Object stored(long number) throws IOException {
    if (decoder != null) {
      return ByteBuffer.wrap(data.copy(number * form.width(), (number + 1) * form.width()));
    }
    long entry = data.numberAt(number * form.width(), form.width());
    return switch (form.type()) { // all NaN are one key, both zeros are two
      case "float" -> Float.intBitsToFloat((int) entry);
      case "double" -> Double.longBitsToDouble(entry);
      default -> entry;
    };
  }

  private Object decoded(byte[] entry) throws DamagedValue {
    decoded.reset();
    try {
      decoder.decode(entry, 0, entry.length, decoded, 0);
    } catch (RefusedValue refused) {
      throw new DamagedValue();
    }
    if (decoded.isNullAt(0)) {
      return null;
    }
    if (column.type() instanceof DecimalType decimals) {
      return decoded.getDecimal(0, decimals.precision(), decimals.scale()).toJavaBigDecimal().unscaledValue();
    }
    return column.type().equals(DataTypes.DateType) ? (Object) (long) decoded.getInt(0) : (Object) decoded.getLong(0);
  }

  @Override
  Object literal(Object value) {
    return value;
  }

  @Override
  int order(Object left, Object right) {
    return order.compare(left, right);
  }

  @Override
  public void close() throws IOException {
    data.close();
  }
}
