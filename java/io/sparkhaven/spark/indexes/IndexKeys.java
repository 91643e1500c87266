package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.codings.Decoders;
import io.sparkhaven.spark.codings.InstantForm;
import io.sparkhaven.spark.codings.ValueDecoder;
import io.sparkhaven.spark.columns.PlainValues;
import io.sparkhaven.spark.columns.TextCharset;
import io.sparkhaven.spark.plan.ColumnForm;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.pushdown.ValueOrder;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** The keys of one column of an index, in the order in which they are stored: null first, NaN last. */
abstract class IndexKeys {
  /** Number of keys. */
  abstract long size();

  /** A key in the form of {@link #literal}; null: it is null. Keys that differ may be the same in it. */
  abstract Object key(long number) throws IOException;

  /** A key as it is stored: equal to another one only where both are the same key. */
  abstract Object stored(long number) throws IOException;

  /** The literal of a query, of the column's {@link ValueOrder}, as keys compare with it; null: no key is equal. */
  abstract Object literal(Object value);

  abstract int order(Object left, Object right);

  private int compare(Object left, Object right) {
    if (left == null || right == null) {
      return Boolean.compare(left != null, right != null);
    }
    return order(left, right);
  }

  /** The first of keys [from, to) that is at least a literal, or ({@code above}) greater than it; else {@code to}. */
  final long first(Object literal, boolean above, long from, long to) throws IOException {
    long low = from;
    long high = to;
    while (low < high) {
      long middle = low + high >>> 1;
      int sign = compare(key(middle), literal);
      if (sign < 0 || above && sign == 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** The end of the entries from one on, before {@code to}, that have its key. Keys ascend up to there. */
  final long end(long from, long to) throws IOException {
    Object wanted = stored(from);
    long low = from + 1;
    long high = to;
    while (low < high) {
      long middle = low + high >>> 1;
      if (wanted.equals(stored(middle))) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** Whether no key is less than the one before it. */
  final boolean ascend() throws IOException {
    Object before = null;
    for (long number = 0; number < size(); number++) {
      Object key = key(number);
      if (compare(before, key) > 0) {
        return false;
      }
      before = key;
    }
    return true;
  }

  /** Keys of one width: numbers, Instants, and what a codec makes of dates, times and decimals. */
  static final class Numbers extends IndexKeys {
    private final IndexBytes data;
    private final ColumnForm form;
    private final PlannedColumn column;
    private final ValueOrder order;
    private final PlainValues plain;
    private final ValueDecoder decoder; // null: keys are plain
    private final OnHeapColumnVector key;

    Numbers(IndexBytes data, ColumnForm form, PlannedColumn column) {
      this.data = data;
      this.form = form;
      this.column = column;
      this.order = ValueOrder.of(column);
      String instants = column.instant().equals("long") ? "long" : "timestamp-truncate";
      this.plain = new PlainValues(form, column.type(), new InstantForm(instants, column.name()));
      this.decoder = form.coding() == null ? null : Decoders.of(form.coding(), column.name());
      this.key = new OnHeapColumnVector(1, column.type());
    }

    @Override
    long size() {
      return data.size() / form.width();
    }

    private byte[] entry(long number) throws IOException {
      return data.copy(number * form.width(), (number + 1) * form.width());
    }

    @Override
    Object key(long number) throws IOException {
      key.reset();
      if (decoder == null) {
        plain.put(entry(number), 1, true, key);
      } else {
        decoder.put(entry(number), 0, form.width(), key, 0);
      }
      return key.isNullAt(0) ? null : order.of(ValueOrder.internal(key, 0), column.type());
    }

    /** All NaN are one key, both zeros are two. */
    @Override
    Object stored(long number) throws IOException {
      ByteBuffer entry = ByteBuffer.wrap(entry(number)).order(ByteOrder.LITTLE_ENDIAN);
      return switch (form.type()) {
        case "float" -> entry.getFloat(0);
        case "double" -> entry.getDouble(0);
        default -> entry;
      };
    }

    @Override
    Object literal(Object value) {
      return value;
    }

    @Override
    int order(Object left, Object right) {
      return order.compare(left, right);
    }
  }

  /** Keys that are texts, ordered by UTF-16 unit, which is not the order of Spark. */
  static final class Texts extends IndexKeys {
    private final IndexBytes ends;
    private final IndexBytes data;
    private final TextCharset charset;

    Texts(IndexBytes ends, IndexBytes data, TextCharset charset) {
      this.ends = ends;
      this.data = data;
      this.charset = charset;
    }

    @Override
    long size() {
      return ends.size() / Long.BYTES;
    }

    @Override
    Object key(long number) throws IOException {
      byte[] bytes = IndexFile.value(ends, data, number);
      return bytes.length == 0
          ? null
          : new String(charset.text(bytes, 0, bytes.length, "a key"), StandardCharsets.UTF_8);
    }

    @Override
    Object stored(long number) throws IOException {
      return ByteBuffer.wrap(IndexFile.value(ends, data, number));
    }

    /** Bytes that are no text are equal to no key. */
    @Override
    Object literal(Object value) {
      String text = value.toString();
      return UTF8String.fromString(text).equals(value) ? text : null;
    }

    @Override
    int order(Object left, Object right) {
      return ((String) left).compareTo((String) right);
    }
  }
}
