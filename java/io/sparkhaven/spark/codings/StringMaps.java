package io.sparkhaven.spark.codings;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Maps of texts to numbers, Booleans or texts: the number of entries in four bytes, then of each the length of its key
 * in four bytes, the key in UTF-8, and the value, a text as a key. A number that is the null value of its type is null.
 */
final class StringMaps implements ValueDecoder {
  private final String kind;
  private final int size; // bytes of a value; 0: a text

  /** {@code kind} of the values: Boolean, Double, Float, Int, Long or String. */
  StringMaps(String kind) {
    this.kind = kind;
    switch (kind) {
      case "Boolean":
        size = 1;
        break;
      case "Float":
      case "Int":
        size = 4;
        break;
      case "Double":
      case "Long":
        size = 8;
        break;
      case "String":
        size = 0;
        break;
      default:
        throw new IllegalArgumentException("no such map: " + kind);
    }
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    int end = from + length;
    if (length < 4) {
      throw new DamagedValue();
    }
    int count = BigEndian.intAt(bytes, from);
    if (count < 0 || count > length) {
      throw new DamagedValue();
    }
    int position = from + 4;
    WritableColumnVector keys = into.getChild(0);
    WritableColumnVector values = into.getChild(1);
    into.putArray(row, keys.getElementsAppended(), count);
    for (int index = 0; index < count; index++) {
      position = appendText(bytes, position, end, keys);
      if (size == 0) {
        position = appendText(bytes, position, end, values);
        continue;
      }
      if (end - position < size) {
        throw new DamagedValue();
      }
      append(bytes, position, values);
      position += size;
    }
    if (position != end) {
      throw new DamagedValue();
    }
  }

  /** Appends a text and returns where it ends. */
  private static int appendText(byte[] bytes, int position, int end, WritableColumnVector into) throws DamagedValue {
    int start = position + 4;
    if (start > end) {
      throw new DamagedValue();
    }
    int length = BigEndian.intAt(bytes, position);
    if (length < 0 || length > end - start) {
      throw new DamagedValue();
    }
    Utf8.require(bytes, start, start + length);
    into.appendByteArray(bytes, start, length);
    return start + length;
  }

  private void append(byte[] bytes, int position, WritableColumnVector values) {
    int index = values.appendNotNulls(1);
    boolean none;
    switch (kind) {
      case "Boolean":
        values.putBoolean(index, bytes[position] != 0);
        none = bytes[position] == -1;
        break;
      case "Double":
        double wide = Double.longBitsToDouble(BigEndian.longAt(bytes, position));
        values.putDouble(index, wide);
        none = wide == -Double.MAX_VALUE;
        break;
      case "Float":
        float real = Float.intBitsToFloat(BigEndian.intAt(bytes, position));
        values.putFloat(index, real);
        none = real == -Float.MAX_VALUE;
        break;
      case "Int":
        values.putInt(index, BigEndian.intAt(bytes, position));
        none = values.getInt(index) == Integer.MIN_VALUE;
        break;
      default:
        values.putLong(index, BigEndian.longAt(bytes, position));
        none = values.getLong(index) == Long.MIN_VALUE;
    }
    if (none) {
      values.putNull(index);
    }
  }
}
