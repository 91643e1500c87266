package io.sparkhaven.spark.codings;

import java.math.BigInteger;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.Decimal;

/**
 * Decimals of at most 38 digits: a byte 1 for 0 and above or 0 below it, then the magnitude of the unscaled value,
 * whose bits are inverted below 0. Null is 00, then FF: a zero below zero.
 */
final class Decimals implements ValueDecoder {
  private final int precision;
  private final int kept; // bytes of a magnitude
  private final long limitHigh;
  private final long limitLow;
  private final byte[] octets = new byte[16];

  Decimals(int precision) {
    this.precision = precision;
    kept = magnitudeBytes(precision);
    BigInteger limit = BigInteger.TEN.pow(precision);
    limitLow = limit.longValue();
    limitHigh = limit.shiftRight(64).longValue();
  }

  /** Bytes of the largest magnitude of so many digits. */
  static int magnitudeBytes(int precision) {
    return (int) Math.ceil(precision * (Math.log(10) / Math.log(2)) / 8);
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    int sign = bytes[from];
    if (sign < 0 || sign > 1) {
      throw new DamagedValue();
    }
    long inverted = sign - 1;
    int lowest = Math.min(kept, 8);
    int highest = kept - lowest;
    long low = BigEndian.unsigned(bytes, from + 1 + highest, lowest) ^ inverted & ones(lowest);
    long high = BigEndian.unsigned(bytes, from + 1, highest) ^ inverted & ones(highest);
    if (inverted != 0 && (low | high) == 0) {
      into.putNull(row);
      return;
    }
    int order = Long.compareUnsigned(high, limitHigh);
    if (order > 0 || order == 0 && Long.compareUnsigned(low, limitLow) >= 0) {
      throw new DamagedValue();
    }
    if (inverted != 0) {
      low = -low;
      high = ~high + (low == 0 ? 1 : 0);
    }
    put(high, low, into, row);
  }

  private static long ones(int octets) {
    return octets == 8 ? -1 : (1L << 8 * octets) - 1;
  }

  private void put(long high, long low, WritableColumnVector into, int row) {
    if (precision <= Decimal.MAX_INT_DIGITS()) {
      into.putInt(row, (int) low);
    } else if (precision <= Decimal.MAX_LONG_DIGITS()) {
      into.putLong(row, low);
    } else {
      for (int index = 0; index < 8; index++) {
        octets[index] = (byte) (high >>> 56 - 8 * index);
        octets[8 + index] = (byte) (low >>> 56 - 8 * index);
      }
      into.putByteArray(row, octets, 0, octets.length);
    }
  }
}
