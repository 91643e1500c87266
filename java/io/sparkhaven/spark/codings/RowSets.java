package io.sparkhaven.spark.codings;

import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Row sets of an index, which stay bytes: those that are none are damaged. A set is a list of commands, each a byte
 * (command | size of its number) and a number; {@code 20} is the end.
 *
 * <p>Numbers are distances between positions that ascend. One below zero is from the first row of a range to its last.
 */
public final class RowSets implements ValueDecoder {
  private static final int OFFSET = 0x08; // the number is one distance
  private static final int SHORTS = 0x10; // so many distances of two bytes
  private static final int BYTES = 0x18; // so many distances of one byte
  private static final int END = 0x20;
  private static final int[] SIZES = {0, 2, 4, 8, 1}; // bytes of a number by its code

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    read(bytes, from, from + length, new Positions());
    into.putByteArray(row, bytes, from, length);
  }

  /**
   * The set in bytes [from, to) as ranges: the first row of each, then the row after its last; they ascend.
   *
   * @throws DamagedValue the bytes are no set
   */
  public static long[] ranges(byte[] bytes, int from, int to) throws DamagedValue {
    Ranges ranges = new Ranges();
    read(bytes, from, to, ranges);
    return Arrays.copyOf(ranges.edges, ranges.length);
  }

  private static void read(byte[] bytes, int from, int end, Positions positions) throws DamagedValue {
    int start = from;
    while (true) {
      if (start >= end) {
        throw new DamagedValue();
      }
      int command = bytes[start] & 0xFF;
      if (command == END) {
        if (start + 1 != end) {
          throw new DamagedValue();
        }
        return;
      }
      int kind = command & 0x38;
      int code = command & 7;
      if (kind < OFFSET || kind > BYTES || command > 0x3F || code < 1 || code > 4) {
        throw new DamagedValue();
      }
      int size = SIZES[code];
      if (end - start - 1 < size) {
        throw new DamagedValue();
      }
      long number = signed(bytes, start + 1, size);
      start += 1 + size;
      if (kind == OFFSET) {
        positions.add(number);
        continue;
      }
      int width = kind == SHORTS ? 2 : 1;
      if (number < 0 || number > (end - start) / width) {
        throw new DamagedValue();
      }
      for (long index = 0; index < number; index++, start += width) {
        positions.add(signed(bytes, start, width));
      }
    }
  }

  private static long signed(byte[] bytes, int from, int width) {
    int unused = 64 - 8 * width;
    return BigEndian.unsigned(bytes, from, width) << unused >> unused;
  }

  /** What distances lead to. */
  private static class Positions {
    long last;
    private boolean first = true;
    private boolean inRange; // the last distance was to the last row of a range

    void add(long distance) throws DamagedValue {
      if (first ? distance < 0 : distance == 0 || distance < 0 && inRange) {
        throw new DamagedValue();
      }
      last += Math.abs(distance);
      if (last < 0) {
        throw new DamagedValue();
      }
      first = false;
      inRange = distance < 0;
    }
  }

  /** The ranges that they are of. */
  private static final class Ranges extends Positions {
    private long[] edges = new long[16];
    private int length;

    @Override
    void add(long distance) throws DamagedValue {
      super.add(distance);
      if (distance < 0 || length > 0 && edges[length - 1] == last) {
        edges[length - 1] = last + 1;
        return;
      }
      if (length == edges.length) {
        edges = Arrays.copyOf(edges, 2 * length);
      }
      edges[length++] = last;
      edges[length++] = last + 1;
    }
  }
}
