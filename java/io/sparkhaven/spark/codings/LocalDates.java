package io.sparkhaven.spark.codings;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Days since 1970 of {@code LocalDateCodec}: year &lt;&lt; 9 | month &lt;&lt; 5 | day in three bytes, years 0 to 9999,
 * or with year + 999999999 in five. Null is a byte FF, then zeros.
 */
final class LocalDates implements ValueDecoder {
  private static final long FULL = 999_999_999L << 9;
  private static final long COMPACT_END = 10_000L << 9;
  private static final long EPOCH = 719_468;

  private final int width;
  private final long none;

  LocalDates(int width) {
    this.width = width;
    none = 0xFFL << 8 * (width - 1);
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    long packed = BigEndian.unsigned(bytes, from, width);
    if (packed == none) {
      into.putNull(row);
      return;
    }
    if (width == 3 && packed >= COMPACT_END) {
      throw new DamagedValue();
    }
    packed -= width == 3 ? 0 : FULL;
    long year = packed >> 9;
    int month = (int) (packed >> 5) & 15;
    int day = (int) packed & 31;
    if (month < 1 || month > 12 || day < 1 || day > daysOf(year, month)) {
      throw new DamagedValue();
    }
    long days = dayOf(year, month, day);
    if (Math.abs(days) > Integer.MAX_VALUE) {
      throw new DamagedValue();
    }
    into.putInt(row, (int) days);
  }

  private static int daysOf(long year, int month) {
    if (month != 2) {
      return 30 + (month + (month >> 3) & 1);
    }
    return (year & 3) == 0 && (year % 100 != 0 || (year & 15) == 0) ? 29 : 28;
  }

  /** Days since 1970 in the Gregorian calendar of all times; the year begins in March. */
  private static long dayOf(long year, int month, int day) {
    long years = month <= 2 ? year - 1 : year;
    long era = Math.floorDiv(years, 400L);
    long ofEra = years - era * 400;
    int ofYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146_097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - EPOCH;
  }
}
