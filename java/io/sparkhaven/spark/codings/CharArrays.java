package io.sparkhaven.spark.codings;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/** char[]: as {@link PrimitiveArrays}, with elements as texts of one character, or as their numbers. */
final class CharArrays implements ValueDecoder {
  private static final byte[] HEAD = PrimitiveArrays.headOf('C');
  private static final int SIZE = 2;

  private final int none; // the unit that means null
  private final boolean texts;
  private final byte[] character = new byte[3];

  CharArrays(int none, boolean texts) {
    this.none = none;
    this.texts = texts;
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row)
      throws DamagedValue, RefusedValue {
    int count = PrimitiveArrays.count(bytes, from, length, HEAD, SIZE);
    int position = from + HEAD.length + JavaStreams.LENGTH;
    WritableColumnVector elements = into.arrayData();
    if (!texts) {
      int first = elements.appendNotNulls(count);
      into.putArray(row, first, count);
      for (int index = first; index < first + count; index++, position += SIZE) {
        int unit = BigEndian.shortAt(bytes, position) & 0xFFFF;
        elements.putInt(index, unit);
        if (unit == none) {
          elements.putNull(index);
        }
      }
      return;
    }
    into.putArray(row, elements.getElementsAppended(), count);
    for (int index = 0; index < count; index++, position += SIZE) {
      int unit = BigEndian.shortAt(bytes, position) & 0xFFFF;
      if (unit == none) {
        elements.appendNull();
      } else if (Character.isSurrogate((char) unit)) {
        throw RefusedValue.surrogate(unit);
      } else {
        elements.appendByteArray(character, 0, Utf8.put(unit, character, 0));
      }
    }
  }
}
