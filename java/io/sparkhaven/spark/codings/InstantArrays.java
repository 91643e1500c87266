package io.sparkhaven.spark.codings;

import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Instant[], each value a Java stream of its own, as numbers of microseconds or nanoseconds since 1970.
 *
 * <p>The first element that is not null is {@code 73}, the description of its class and 16 bytes: {@code 77 0D 02},
 * seconds in eight bytes, nanoseconds in four, {@code 78}. Later ones are {@code 73 71 007E0002} and such bytes; {@code
 * 70} is null; {@code 71} is an element that came before, by its number.
 */
final class InstantArrays implements ValueDecoder {
  private static final byte[] HEAD = JavaStreams.head("[Ljava.time.Instant;", 0x7B94DF453B29B54FL);
  private static final byte[] FIRST = object(JavaStreams.description("java.time.Ser", 0x955D84BA1B2248B2L, 0x0C));
  private static final byte[] LATER = {0x73, 0x71, 0, 0x7E, 0, 2};
  private static final int FIRST_INSTANT = 0x7E0003; // numbers before it: class, array, class of elements
  private static final int VALUE = 16;
  private static final long SECOND = 1_000_000_000;

  private final InstantForm form;
  private long[] earlier = new long[16]; // nanoseconds of this value's instants

  InstantArrays(InstantForm form) {
    this.form = form;
  }

  private static byte[] object(byte[] description) {
    byte[] object = new byte[description.length + 1];
    object[0] = 0x73;
    System.arraycopy(description, 0, object, 1, description.length);
    return object;
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row)
      throws DamagedValue, RefusedValue {
    int end = from + length;
    int count = JavaStreams.count(bytes, from, end, HEAD);
    int position = from + HEAD.length + JavaStreams.LENGTH;
    WritableColumnVector elements = into.arrayData();
    int first = elements.appendNotNulls(count);
    into.putArray(row, first, count);
    int instants = 0;
    RefusedValue refused = null; // later bytes may be damaged, which comes first
    for (int index = first; index < first + count; index++) {
      int tag = position < end ? bytes[position] : -1;
      if (tag == JavaStreams.NULL) {
        elements.putNull(index);
        position++;
        continue;
      }
      long instant;
      if (tag == JavaStreams.REFERENCE) {
        instant = earlierAt(bytes, position + 1, end, instants);
        position += 5;
      } else {
        byte[] front = instants == 0 ? FIRST : LATER;
        instant = instantAt(bytes, position, end, front);
        position += front.length + VALUE;
        if (instants == earlier.length) {
          earlier = Arrays.copyOf(earlier, 2 * instants);
        }
        earlier[instants++] = instant;
      }
      try {
        elements.putLong(index, form.of(instant));
      } catch (RefusedValue inexact) {
        refused = inexact;
      }
    }
    if (position != end) {
      throw new DamagedValue();
    }
    if (refused != null) {
      throw refused;
    }
  }

  private long earlierAt(byte[] bytes, int position, int end, int instants) throws DamagedValue {
    if (end - position < 4) {
      throw new DamagedValue();
    }
    long number = (long) BigEndian.intAt(bytes, position) - FIRST_INSTANT;
    if (number < 0 || number >= instants) {
      throw new DamagedValue();
    }
    return earlier[(int) number];
  }

  private static long instantAt(byte[] bytes, int position, int end, byte[] front) throws DamagedValue {
    int start = position + front.length;
    if (end - start < VALUE || !BigEndian.begins(bytes, position, end, front)) {
      throw new DamagedValue();
    }
    boolean sound = bytes[start] == 0x77 && bytes[start + 1] == 0x0D && bytes[start + 2] == 2;
    long seconds = BigEndian.longAt(bytes, start + 3);
    int below = BigEndian.intAt(bytes, start + 11);
    if (!sound || bytes[start + 15] != 0x78 || below < 0 || below >= SECOND) {
      throw new DamagedValue();
    }
    long most = Long.MAX_VALUE / SECOND + 1;
    if (seconds < -most || seconds > most) {
      throw new DamagedValue();
    }
    try {
      long instant =
          seconds < 0
              ? Math.addExact((seconds + 1) * SECOND, below - SECOND)
              : Math.addExact(Math.multiplyExact(seconds, SECOND), below);
      if (instant == Long.MIN_VALUE) {
        throw new DamagedValue();
      }
      return instant;
    } catch (ArithmeticException beyond) {
      throw new DamagedValue();
    }
  }
}
