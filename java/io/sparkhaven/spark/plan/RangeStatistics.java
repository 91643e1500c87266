package io.sparkhaven.spark.plan;

import java.nio.ByteBuffer;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What a commit says of one column over rows [start, stop).
 *
 * @param nulls rows without a value
 * @param nans rows with a NaN, which is never a bound
 * @param low at most every value: Long, Double, Boolean or UTF8String; null: not known, or there is no value
 * @param high at least every value
 */
public record RangeStatistics(long start, long stop, long nulls, long nans, Object low, Object high) {
  private static final int HEAD = 18;
  private static final int INEXACT = 0x80; // an Instant has a part below one microsecond

  /**
   * Takes one column out of a row of statistics. The format is that of {@code store/epochs/state/statistics.py}.
   *
   * @param data little-endian
   * @param offset byte of the row
   * @param count columns of the row
   * @param column number of one of them
   */
  static RangeStatistics read(ByteBuffer data, int offset, int count, int column) {
    long start = data.getLong(offset);
    long stop = data.getLong(offset + 8);
    int nullWidth = data.get(offset + 16);
    int nanWidth = data.get(offset + 17);
    int kinds = offset + HEAD;
    int counts = kinds + count;
    long nulls = count(data, counts, nullWidth, column);
    long nans = count(data, counts + count * nullWidth, nanWidth, column);
    int numbers = 0; // columns whose bounds are numbers
    int number = 0; // how many of them come before this one
    int text = 0; // columns before this one whose bounds are texts
    for (int other = 0; other < count; other++) {
      int kind = data.get(kinds + other) & ~INEXACT & 0xFF;
      boolean isNumber = kind > 0 && kind < 4;
      numbers += isNumber ? 1 : 0;
      number += isNumber && other < column ? 1 : 0;
      text += kind == 4 && other < column ? 1 : 0;
    }
    int bounds = counts + count * (nullWidth + nanWidth);
    Object low = null;
    Object high = null;
    int kind = data.get(kinds + column) & ~INEXACT & 0xFF;
    if (kind == 4) {
      int position = bounds + 16 * numbers;
      for (int skipped = 0; skipped < 2 * text; skipped++) {
        position += 1 + (data.get(position) & 0xFF);
      }
      low = text(data, position);
      high = text(data, position + 1 + (data.get(position) & 0xFF));
    } else if (kind > 0) {
      low = bound(data, kind, bounds + 8 * number);
      high = bound(data, kind, bounds + 8 * (numbers + number));
    }
    return new RangeStatistics(start, stop, nulls, nans, low, high);
  }

  private static long count(ByteBuffer data, int offset, int width, int column) {
    int position = offset + width * column;
    return switch (width) {
      case 0 -> 0;
      case 1 -> data.get(position) & 0xFF;
      case 2 -> data.getShort(position) & 0xFFFF;
      case 4 -> data.getInt(position) & 0xFFFF_FFFFL;
      case 8 -> data.getLong(position);
      default -> throw new IllegalArgumentException("counts of " + width + " bytes");
    };
  }

  private static Object bound(ByteBuffer data, int kind, int offset) {
    return switch (kind) {
      case 1 -> data.getLong(offset);
      case 2 -> data.getDouble(offset);
      case 3 -> data.getLong(offset) != 0;
      default -> throw new IllegalArgumentException("bounds of kind " + kind);
    };
  }

  private static UTF8String text(ByteBuffer data, int offset) {
    byte[] bytes = new byte[data.get(offset) & 0xFF];
    data.get(offset + 1, bytes);
    return UTF8String.fromBytes(bytes);
  }
}
