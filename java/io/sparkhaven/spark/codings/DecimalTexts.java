package io.sparkhaven.spark.codings;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/** Decimals of more than 38 digits as texts without exponent and trailing zeros; bytes as those of {@link Decimals}. */
final class DecimalTexts implements ValueDecoder {
  private final int kept; // bytes of a magnitude
  private final int scale;
  private final BigInteger limit;

  DecimalTexts(int precision, int scale) {
    kept = Decimals.magnitudeBytes(precision);
    this.scale = scale;
    limit = BigInteger.TEN.pow(precision);
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    int sign = bytes[from];
    if (sign < 0 || sign > 1) {
      throw new DamagedValue();
    }
    byte[] octets = new byte[kept];
    for (int index = 0; index < kept; index++) {
      octets[index] = (byte) (bytes[from + 1 + index] ^ sign - 1);
    }
    BigInteger magnitude = new BigInteger(1, octets);
    if (sign == 0 && magnitude.signum() == 0) {
      into.putNull(row);
      return;
    }
    if (magnitude.compareTo(limit) >= 0) {
      throw new DamagedValue();
    }
    put(new BigDecimal(sign == 0 ? magnitude.negate() : magnitude, scale), into, row);
  }

  /** Puts a number as its plain text. */
  static void put(BigDecimal number, WritableColumnVector into, int row) {
    String text = number.signum() == 0 ? "0" : number.stripTrailingZeros().toPlainString();
    into.putByteArray(row, text.getBytes(StandardCharsets.US_ASCII));
  }
}
