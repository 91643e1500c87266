package io.sparkhaven.spark.plan;

import java.io.Serializable;
import java.util.Arrays;

/**
 * Which rows of ranges are read. They have a bit each, in their order, the lowest of a byte first. So rows that lie
 * scattered are read in whole batches, and those between them are left out.
 */
public final class PickedRows implements Serializable {
  private static final long serialVersionUID = 1;

  private final long[] ranges;
  private final long[] before; // how many rows the ranges before each have
  private final byte[] bits;

  /**
   * Rows of ranges.
   *
   * @param ranges first row and row after the last of each, in turn; they ascend
   * @param bits of these rows
   */
  PickedRows(long[] ranges, byte[] bits) {
    this.ranges = ranges;
    this.bits = bits;
    this.before = new long[ranges.length / 2];
    for (int number = 1; number < before.length; number++) {
      before[number] = before[number - 1] + ranges[2 * number - 1] - ranges[2 * number - 2];
    }
  }

  /** Those of some of the ranges, or of parts of them, with no other bits: for a task. */
  public PickedRows within(long[] some) {
    long from = bit(some[0]);
    if (some.length == 2 && (from & 7) == 0) { // whole batches of one range
      long to = from + some[1] - some[0];
      return new PickedRows(some, Arrays.copyOfRange(bits, (int) (from >> 3), (int) (to + 7 >> 3)));
    }
    byte[] own = new byte[(int) ((RowRanges.count(some) + 7) / 8)];
    int length = 0;
    for (int number = 0; number < some.length; number += 2) {
      long bit = bit(some[number]);
      for (long row = some[number]; row < some[number + 1]; row++, bit++, length++) {
        if (has(bit)) {
          own[length >> 3] |= (byte) (1 << (length & 7));
        }
      }
    }
    return new PickedRows(some, own);
  }

  /** How many rows of some of the ranges, or of parts of them, are read. */
  public long count(long[] some) {
    long count = 0;
    for (int number = 0; number < some.length; number += 2) {
      long bit = bit(some[number]);
      count += count(bit, bit + some[number + 1] - some[number]);
    }
    return count;
  }

  /** Those ranges, or parts of them, that have the first so many rows that are read; there are more. */
  public long[] first(long[] some, long rows) {
    long left = rows;
    for (int number = 0; number < some.length; number += 2) {
      long bit = bit(some[number]);
      for (long row = some[number]; row < some[number + 1]; row++, bit++) {
        left -= has(bit) ? 1 : 0;
        if (left == 0) {
          long[] kept = Arrays.copyOf(some, number + 2);
          kept[number + 1] = row + 1;
          return kept;
        }
      }
    }
    return some;
  }

  /**
   * Which of the rows [first, first + rows) of one range are read.
   *
   * @param into their distances from the first
   * @return how many they are
   */
  public int pick(long first, int rows, int[] into) {
    long bit = bit(first);
    int count = 0;
    for (int row = 0; row < rows; row++) {
      into[count] = row;
      count += has(bit + row) ? 1 : 0;
    }
    return count;
  }

  /** How many rows from the first one on, at most so many of one range, are all read, or are all left out. */
  public int run(long first, int most) {
    long bit = bit(first);
    int rows = 1;
    while (rows < most && has(bit + rows) == has(bit)) {
      rows++;
    }
    return rows;
  }

  /** Whether a row of one range is read. */
  public boolean contains(long row) {
    return has(bit(row));
  }

  private boolean has(long bit) {
    return (bits[(int) (bit >> 3)] >> (bit & 7) & 1) != 0;
  }

  private long count(long from, long to) {
    long count = 0;
    long bit = from;
    while (bit < to) {
      if ((bit & 7) == 0 && bit + 8 <= to) {
        count += Integer.bitCount(bits[(int) (bit >> 3)] & 0xFF);
        bit += 8;
      } else {
        count += has(bit) ? 1 : 0;
        bit++;
      }
    }
    return count;
  }

  /** The bit of a row. */
  private long bit(long row) {
    int low = 0;
    int high = before.length - 1;
    while (low < high) {
      int middle = (low + high + 1) >>> 1;
      if (ranges[2 * middle] <= row) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return before[low] + row - ranges[2 * low];
  }
}
