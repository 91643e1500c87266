package io.sparkhaven.spark.codings;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Nanoseconds of the day of {@code LocalTimeCodec}: hour, minute (6 bits), second (6 bits) and fraction, which has as
 * many bits as its digits need. Null is a byte 80, then zeros.
 */
final class LocalTimes implements ValueDecoder {
  private static final long SECOND = 1_000_000_000;

  private final int bits;
  private final int width;
  private final long most;
  private final long unit;
  private final long none;

  /** {@code digits} of the fraction of a second: 0, 3, 6 or 9. */
  LocalTimes(int digits) {
    most = (long) Math.pow(10, digits);
    unit = SECOND / most;
    bits = 64 - Long.numberOfLeadingZeros(most - 1);
    width = (1 + 5 + 6 + 6 + bits + 7) / 8;
    none = 0x80L << 8 * (width - 1);
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    long packed = BigEndian.unsigned(bytes, from, width);
    if (packed == none) {
      into.putNull(row);
      return;
    }
    long fraction = packed & (1L << bits) - 1;
    long second = packed >> bits & 63;
    long minute = packed >> 6 + bits & 63;
    long hour = packed >> 12 + bits;
    if (hour > 23 || minute > 59 || second > 59 || fraction >= most) {
      throw new DamagedValue();
    }
    into.putLong(row, ((hour * 60 + minute) * 60 + second) * SECOND + fraction * unit);
  }
}
