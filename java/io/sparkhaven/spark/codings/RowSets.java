package io.sparkhaven.spark.codings;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
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
  public void decode(ByteBuffer value, WritableColumnVector into, int row) throws DamagedValue {
    int from = value.position();
    read(value, new Positions());
    into.putByteArray(row, value.array(), from, value.position() - from);
  }

  /**
   * The set in these bytes as ranges: the first row of each, then the row after its last; they ascend.
   *
   * @throws DamagedValue the bytes are no set
   */
  public static long[] ranges(byte[] bytes) throws DamagedValue {
    ByteBuffer value = ByteBuffer.wrap(bytes);
    Ranges ranges = new Ranges();
    try {
      read(value, ranges);
    } catch (BufferUnderflowException cut) {
      throw new DamagedValue();
    }
    DamagedValue.unless(!value.hasRemaining());
    return Arrays.copyOf(ranges.edges, ranges.length);
  }

  private static void read(ByteBuffer value, Positions positions) throws DamagedValue {
    for (int command = value.get(); command != END; command = value.get()) {
      int kind = command & 0x38;
      int code = command & 7;
      DamagedValue.unless(command > 0 && command <= 0x3F && kind >= OFFSET && kind <= BYTES && code >= 1 && code <= 4);
      long number = signed(value, SIZES[code]);
      if (kind == OFFSET) {
        positions.add(number);
        continue;
      }
      int width = kind == SHORTS ? 2 : 1;
      DamagedValue.unless(number >= 0 && number <= value.remaining() / width);
      for (long index = 0; index < number; index++) {
        positions.add(signed(value, width));
      }
    }
  }

  private static long signed(ByteBuffer value, int width) {
    int unused = 64 - 8 * width;
    return Decoders.unsigned(value, width) << unused >> unused;
  }

  /** What distances lead to. */
  private static class Positions {
    long last;
    private boolean first = true;
    private boolean inRange; // the last distance was to the last row of a range

    void add(long distance) throws DamagedValue {
      DamagedValue.unless(first ? distance >= 0 : distance > 0 || distance < 0 && !inRange);
      last += Math.abs(distance);
      DamagedValue.unless(last >= 0);
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
