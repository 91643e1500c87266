package io.sparkhaven.spark.codings;

import java.util.Map;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Arrays of numbers and Booleans, each value a Java stream of its own: a head, the number of elements in four bytes,
 * and the elements. One that is the null value of its type is null. byte[] are bytes, without null.
 */
final class PrimitiveArrays implements ValueDecoder {
  private static final Map<Character, Long> SERIAL =
      Map.of(
          'B', 0xACF317F8060854E0L,
          'S', 0xEF832E06E55DB0FAL,
          'I', 0x4DBA602676EAB2A5L,
          'J', 0x782004B512B17593L,
          'F', 0x0B9C818922E00C42L,
          'D', 0x3EA68C14AB635A1EL,
          'C', 0xB02666B0E25D84ACL,
          'Z', 0x578F203914B85DE2L);

  private final char letter;
  private final byte[] head;
  private final int size; // bytes of an element

  /** {@code letter} of the class of the elements: one of BSIJFDZ. */
  PrimitiveArrays(char letter) {
    this.letter = letter;
    head = headOf(letter);
    size = sizeOf(letter);
  }

  static byte[] headOf(char letter) {
    return JavaStreams.head("[" + letter, SERIAL.get(letter));
  }

  private static int sizeOf(char letter) {
    switch (letter) {
      case 'J':
      case 'D':
        return 8;
      case 'I':
      case 'F':
        return 4;
      case 'S':
      case 'C':
        return 2;
      default:
        return 1;
    }
  }

  /** How many elements of so many bytes a stream has; DamagedValue: it is none, or has other bytes behind its head. */
  static int count(byte[] bytes, int from, int length, byte[] head, int size) throws DamagedValue {
    int front = head.length + JavaStreams.LENGTH;
    if (length < front || !BigEndian.begins(bytes, from, from + length, head)) {
      throw new DamagedValue();
    }
    int count = BigEndian.intAt(bytes, from + head.length);
    if (count < 0 || (long) count * size + front != length) {
      throw new DamagedValue();
    }
    return count;
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    int count = count(bytes, from, length, head, size);
    int position = from + head.length + JavaStreams.LENGTH;
    if (letter == 'B') {
      into.putByteArray(row, bytes, position, count);
      return;
    }
    WritableColumnVector elements = into.arrayData();
    int first = elements.appendNotNulls(count);
    into.putArray(row, first, count);
    for (int index = first; index < first + count; index++, position += size) {
      put(bytes, position, elements, index);
    }
  }

  private void put(byte[] bytes, int position, WritableColumnVector elements, int index) {
    switch (letter) {
      case 'J':
        long number = BigEndian.longAt(bytes, position);
        elements.putLong(index, number);
        if (number == Long.MIN_VALUE) {
          elements.putNull(index);
        }
        break;
      case 'D':
        double wide = Double.longBitsToDouble(BigEndian.longAt(bytes, position));
        elements.putDouble(index, wide);
        if (wide == -Double.MAX_VALUE) {
          elements.putNull(index);
        }
        break;
      case 'I':
        int whole = BigEndian.intAt(bytes, position);
        elements.putInt(index, whole);
        if (whole == Integer.MIN_VALUE) {
          elements.putNull(index);
        }
        break;
      case 'F':
        float real = Float.intBitsToFloat(BigEndian.intAt(bytes, position));
        elements.putFloat(index, real);
        if (real == -Float.MAX_VALUE) {
          elements.putNull(index);
        }
        break;
      case 'S':
        short little = BigEndian.shortAt(bytes, position);
        elements.putShort(index, little);
        if (little == Short.MIN_VALUE) {
          elements.putNull(index);
        }
        break;
      default:
        elements.putBoolean(index, bytes[position] != 0);
    }
  }
}
