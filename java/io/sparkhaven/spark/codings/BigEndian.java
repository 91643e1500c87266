package io.sparkhaven.spark.codings;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/** Big-endian numbers in bytes. A position outside of them is an IndexOutOfBoundsException. */
final class BigEndian {
  private static final VarHandle SHORTS = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.BIG_ENDIAN);
  private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
  private static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

  private BigEndian() {}

  static short shortAt(byte[] bytes, int position) {
    return (short) SHORTS.get(bytes, position);
  }

  static int intAt(byte[] bytes, int position) {
    return (int) INTS.get(bytes, position);
  }

  static long longAt(byte[] bytes, int position) {
    return (long) LONGS.get(bytes, position);
  }

  /** A number without a sign of at most 8 bytes. */
  static long unsigned(byte[] bytes, int from, int width) {
    long number = 0;
    for (int index = from; index < from + width; index++) {
      number = number << 8 | bytes[index] & 0xFF;
    }
    return number;
  }

  /** Whether bytes from a position on, up to {@code end}, begin with others. */
  static boolean begins(byte[] bytes, int position, int end, byte[] head) {
    return end - position >= head.length
        && Arrays.equals(bytes, position, position + head.length, head, 0, head.length);
  }
}
