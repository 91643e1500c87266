package io.sparkhaven.spark.codings;

import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * String[], each value a Java stream of its own. A text is {@code 74} with its length in two bytes, or {@code 7C} with
 * it in eight, and modified UTF-8; {@code 70} is null; {@code 71} is a text that came before, by its number.
 */
final class StringArrays implements ValueDecoder {
  private static final byte[] HEAD = JavaStreams.head("[Ljava.lang.String;", 0xADD256E7E91D7B47L);
  private static final int STRING = 0x74;
  private static final int LONG_STRING = 0x7C;
  private static final int FIRST_TEXT = 0x7E0002; // numbers before it: the class, the array

  private byte[] text = new byte[256];
  private int[] earlier = new int[16]; // texts of this value: where they are in the elements

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    int end = from + length;
    int count = JavaStreams.count(bytes, from, end, HEAD);
    int position = from + HEAD.length + JavaStreams.LENGTH;
    WritableColumnVector elements = into.arrayData();
    into.putArray(row, elements.getElementsAppended(), count);
    int texts = 0;
    for (int index = 0; index < count; index++) {
      int tag = need(bytes, position, 1, end) == 0 ? bytes[position++] : -1;
      switch (tag) {
        case JavaStreams.NULL:
          elements.appendNull();
          break;
        case JavaStreams.REFERENCE:
          int number = BigEndian.intAt(bytes, position + need(bytes, position, 4, end)) - FIRST_TEXT;
          if (number < 0 || number >= texts) {
            throw new DamagedValue();
          }
          byte[] again = elements.getBinary(earlier[number]);
          elements.appendByteArray(again, 0, again.length);
          position += 4;
          break;
        case STRING:
        case LONG_STRING:
          int wide = tag == STRING ? 2 : 8;
          need(bytes, position, wide, end);
          long size = BigEndian.unsigned(bytes, position, wide);
          position += wide;
          if (size < 0 || size > end - position) {
            throw new DamagedValue();
          }
          if (texts == earlier.length) {
            earlier = Arrays.copyOf(earlier, 2 * texts);
          }
          earlier[texts++] = elements.getElementsAppended();
          append(bytes, position, (int) size, elements);
          position += (int) size;
          break;
        default:
          throw new DamagedValue();
      }
    }
    if (position != end) {
      throw new DamagedValue();
    }
  }

  /** 0 where so many bytes are left. */
  private static int need(byte[] bytes, int position, int count, int end) throws DamagedValue {
    if (count > end - position) {
      throw new DamagedValue();
    }
    return 0;
  }

  private void append(byte[] bytes, int from, int length, WritableColumnVector elements) throws DamagedValue {
    if (length > text.length) {
      text = new byte[length];
    }
    elements.appendByteArray(text, 0, Utf8.ofModified(bytes, from, from + length, text));
  }
}
