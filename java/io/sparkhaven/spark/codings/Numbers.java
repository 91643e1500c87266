package io.sparkhaven.spark.codings;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Numbers of any length as plain texts: the scale in four bytes, then the unscaled value as two's complement. A
 * BigInteger ({@code whole}) has scale 0.
 */
final class Numbers implements ValueDecoder {
  private static final int LONGEST = 4_000; // digits, as writers take them

  private final boolean whole;

  Numbers(boolean whole) {
    this.whole = whole;
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    if (length < 5) {
      throw new DamagedValue();
    }
    int scale = BigEndian.intAt(bytes, from);
    if (scale < -2 * LONGEST || scale > 2 * LONGEST || whole && scale != 0) {
      throw new DamagedValue();
    }
    BigInteger unscaled = new BigInteger(bytes, from + 4, length - 4);
    long digitsAtMost = unscaled.abs().bitLength() * 30_103L / 100_000 + 1; // or one less
    if (digitsAtMost + Math.max(-scale, 0) > LONGEST + 2) { // a number of LONGEST + 1 is written, too
      throw new DamagedValue();
    }
    DecimalTexts.put(new BigDecimal(unscaled, scale), into, row);
  }
}
