package io.sparkhaven.spark.codings;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalTime;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/** Decoders by the words with which a plan names them: a kind, then its numbers and words, with spaces between. */
public final class Decoders {
  private static final int LONGEST = 4_000; // digits of a number, as writers take them

  private Decoders() {}

  /** The decoder of a column's values; IllegalArgumentException: there is none of the name. */
  public static ValueDecoder of(String words, String column) {
    String[] parts = words.split(" ");
    return switch (parts[0]) {
      case "dates" -> dates(number(parts, 1));
      case "times" -> times(number(parts, 1));
      case "decimals" -> decimals(number(parts, 1), number(parts, 2));
      case "numbers" -> numbers(false);
      case "wholes" -> numbers(true);
      case "octets" -> (value, into, row) -> putBytes(value, number(parts, 1), into, row);
      case "nullable-octets" -> nullable(number(parts, 1));
      case "bytes" -> (value, into, row) -> putBytes(value, value.remaining(), into, row);
      case "row-sets" -> new RowSets();
      case "arrays" -> ArrayStreams.numbers(parts[1].charAt(0));
      case "chars" -> ArrayStreams.chars(number(parts, 1), parts[2].equals("string"), column);
      case "instants" -> ArrayStreams.instants(new InstantForm(parts[1], column));
      case "texts" -> ArrayStreams::texts;
      case "maps" -> maps(parts[1]);
      default -> throw new IllegalArgumentException("no such coding: " + words);
    };
  }

  private static int number(String[] parts, int index) {
    return Integer.parseInt(parts[index]);
  }

  /** A number without a sign of at most 8 bytes. */
  static long unsigned(ByteBuffer value, int width) {
    long number = 0;
    for (int index = 0; index < width; index++) {
      number = number << 8 | value.get() & 0xFF;
    }
    return number;
  }

  /** Bytes as they are: of byte[] by its codecs, and of classes that nobody knows. */
  static void putBytes(ByteBuffer value, int length, WritableColumnVector into, int row) {
    int from = value.position();
    value.position(from + length);
    into.putByteArray(row, value.array(), from, length);
  }

  /** Bytes of one length, before which 00 stands; FF, then zeros, is null. */
  private static ValueDecoder nullable(int size) {
    return (value, into, row) -> {
      int mark = value.get();
      if (mark == 0) {
        putBytes(value, size, into, row);
        return;
      }
      DamagedValue.unless(mark == -1);
      for (int index = 0; index < size; index++) {
        DamagedValue.unless(value.get() == 0);
      }
      into.putNull(row);
    };
  }

  /**
   * Days since 1970 of {@code LocalDateCodec}: year &lt;&lt; 9 | month &lt;&lt; 5 | day in three bytes, years 0 to
   * 9999, or with year + 999999999 in five. Null is a byte FF, then zeros.
   */
  private static ValueDecoder dates(int width) {
    long none = 0xFFL << 8 * (width - 1);
    return (value, into, row) -> {
      long packed = unsigned(value, width);
      if (packed == none) {
        into.putNull(row);
        return;
      }
      DamagedValue.unless(width > 3 || packed < 10_000L << 9);
      int year = (int) (packed >> 9) - (width > 3 ? 999_999_999 : 0);
      long days = LocalDate.of(year, (int) (packed >> 5) & 15, (int) packed & 31).toEpochDay();
      DamagedValue.unless(Math.abs(days) <= Integer.MAX_VALUE);
      into.putInt(row, (int) days);
    };
  }

  /**
   * Nanoseconds of the day of {@code LocalTimeCodec}: hour, minute (6 bits), second (6 bits) and fraction, which has as
   * many bits as its digits (0, 3, 6 or 9) need. Null is a byte 80, then zeros.
   */
  private static ValueDecoder times(int digits) {
    long most = (long) Math.pow(10, digits);
    int unit = (int) (1_000_000_000 / most);
    int bits = 64 - Long.numberOfLeadingZeros(most - 1);
    int width = (1 + 5 + 6 + 6 + bits + 7) / 8;
    long none = 0x80L << 8 * (width - 1);
    return (value, into, row) -> {
      long packed = unsigned(value, width);
      if (packed == none) {
        into.putNull(row);
        return;
      }
      int fraction = (int) (packed & (1L << bits) - 1);
      int second = (int) (packed >> bits) & 63;
      int minute = (int) (packed >> 6 + bits) & 63;
      int hour = (int) (packed >> 12 + bits);
      DamagedValue.unless(fraction < most);
      into.putLong(row, LocalTime.of(hour, minute, second, fraction * unit).toNanoOfDay());
    };
  }

  /**
   * Decimals: a byte 1 for 0 and above or 0 below it, then the magnitude of the unscaled value, whose bits are inverted
   * below 0. Null is 00, then FF: a zero below zero. More than 38 digits become texts.
   */
  private static ValueDecoder decimals(int precision, int scale) {
    int kept = (int) Math.ceil(precision * (Math.log(10) / Math.log(2)) / 8); // bytes of the largest magnitude
    BigInteger limit = BigInteger.TEN.pow(precision);
    return (value, into, row) -> {
      int sign = value.get();
      DamagedValue.unless(sign == 0 || sign == 1);
      if (precision <= Decimal.MAX_LONG_DIGITS()) {
        long magnitude = unsigned(value, kept) ^ (sign - 1L & -1L >>> 64 - 8 * kept);
        DamagedValue.unless(Long.compareUnsigned(magnitude, limit.longValue()) < 0);
        if (sign == 0 && magnitude == 0) {
          into.putNull(row);
        } else if (precision <= Decimal.MAX_INT_DIGITS()) {
          into.putInt(row, (int) (sign == 0 ? -magnitude : magnitude));
        } else {
          into.putLong(row, sign == 0 ? -magnitude : magnitude);
        }
        return;
      }
      byte[] octets = new byte[kept];
      value.get(octets);
      for (int index = 0; index < kept; index++) {
        octets[index] ^= (byte) (sign - 1);
      }
      BigInteger magnitude = new BigInteger(1, octets);
      DamagedValue.unless(magnitude.compareTo(limit) < 0);
      BigInteger number = sign == 0 ? magnitude.negate() : magnitude;
      if (sign == 0 && magnitude.signum() == 0) {
        into.putNull(row);
      } else if (precision <= DecimalType.MAX_PRECISION()) {
        into.putByteArray(row, number.toByteArray());
      } else {
        putText(new BigDecimal(number, scale), into, row);
      }
    };
  }

  /**
   * Numbers of any length as texts: the scale in four bytes, then the unscaled value as two's complement. A BigInteger
   * ({@code whole}) has scale 0.
   */
  private static ValueDecoder numbers(boolean whole) {
    return (value, into, row) -> {
      int scale = value.getInt();
      DamagedValue.unless(Math.abs((long) scale) <= (whole ? 0 : 2 * LONGEST) && value.hasRemaining());
      byte[] octets = new byte[value.remaining()];
      value.get(octets);
      BigInteger unscaled = new BigInteger(octets);
      long digitsAtMost = unscaled.abs().bitLength() * 30_103L / 100_000 + 1; // or one less
      // a number of LONGEST + 1 is written, too
      DamagedValue.unless(digitsAtMost + Math.max(-scale, 0) <= LONGEST + 2);
      putText(new BigDecimal(unscaled, scale), into, row);
    };
  }

  /** Puts a number as its text without exponent and trailing zeros. */
  private static void putText(BigDecimal number, WritableColumnVector into, int row) {
    String text = number.signum() == 0 ? "0" : number.stripTrailingZeros().toPlainString();
    into.putByteArray(row, text.getBytes(StandardCharsets.US_ASCII));
  }

  /**
   * Maps of texts to Booleans, numbers ({@code Double}, {@code Float}, {@code Int}, {@code Long}) or texts ({@code
   * String}): the number of entries in four bytes, then of each its key and its value. A number that is the null value of
   * its type is null.
   */
  private static ValueDecoder maps(String kind) {
    boolean texts = kind.equals("String");
    char letter = kind.equals("Long") ? 'J' : kind.charAt(0);
    return (value, into, row) -> {
      int count = value.getInt();
      DamagedValue.unless(count >= 0 && count <= value.remaining());
      WritableColumnVector keys = into.getChild(0);
      WritableColumnVector values = into.getChild(1);
      into.putArray(row, keys.getElementsAppended(), count);
      for (int index = 0; index < count; index++) {
        appendText(value, keys);
        if (texts) {
          appendText(value, values);
        } else {
          putPrimitive(letter, value, values, values.appendNotNulls(1));
        }
      }
    };
  }

  /** A text: its length in four bytes, and UTF-8. */
  private static void appendText(ByteBuffer value, WritableColumnVector into) throws IOException {
    int length = value.getInt();
    DamagedValue.unless(length >= 0 && length <= value.remaining());
    int from = value.position();
    StandardCharsets.UTF_8.newDecoder().decode(value.slice(from, length)); // CharacterCodingException: it is none
    value.position(from + length);
    into.appendByteArray(value.array(), from, length);
  }

  /** A number or ({@code Z}) a boolean by the letter of its class, or ({@code B}) a Boolean; the null value is null. */
  static void putPrimitive(char letter, ByteBuffer value, WritableColumnVector into, int row) {
    boolean none = false;
    switch (letter) {
      case 'J' -> {
        into.putLong(row, value.getLong());
        none = into.getLong(row) == Long.MIN_VALUE;
      }
      case 'D' -> {
        into.putDouble(row, value.getDouble());
        none = into.getDouble(row) == -Double.MAX_VALUE;
      }
      case 'I' -> {
        into.putInt(row, value.getInt());
        none = into.getInt(row) == Integer.MIN_VALUE;
      }
      case 'F' -> {
        into.putFloat(row, value.getFloat());
        none = into.getFloat(row) == -Float.MAX_VALUE;
      }
      case 'S' -> {
        into.putShort(row, value.getShort());
        none = into.getShort(row) == Short.MIN_VALUE;
      }
      default -> {
        int truth = value.get();
        into.putBoolean(row, truth != 0);
        none = letter == 'B' && truth == -1;
      }
    }
    if (none) {
      into.putNull(row);
    }
  }
}
