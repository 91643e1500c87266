package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.CommittedFile;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;

/**
 * Values of any length, batch by batch: the i8 ends of the rows in a {@code .dat} file, the bytes in another. Value i
 * is the bytes from end i - 1 (0 for the first row) to end i; null has none.
 */
public final class ValueRanges implements Closeable {
  private static final int MOST_BYTES = 32 << 20;

  private final CommittedFile ends;
  private final CommittedFile values;
  private final ByteBuffer stored;
  private final int[] places;
  private byte[] data = {};
  private long storedFirst = -1;
  private int storedRows;
  private long before;

  /**
   * Values of a location.
   *
   * @param ends the {@code .dat} file
   * @param values the {@code .bytes} file
   * @param rows most rows of a batch
   */
  public ValueRanges(CommittedFile ends, CommittedFile values, int rows) {
    this.ends = ends;
    this.values = values;
    stored = ByteBuffer.allocate(8 * rows).order(ByteOrder.LITTLE_ENDIAN);
    places = new int[rows + 1];
  }

  /** Looks whether the value of the last row ends with the committed bytes. ReadFailure: it does not. */
  void requireLast(long rows) throws IOException {
    long last = rows == 0 ? 0 : endOf(rows - 1);
    if (last != values.state().size()) {
      throw ReadFailure.damaged(
          "last value does not end with the committed bytes",
          ends.path() + ", row " + (rows - 1),
          values.state().size(),
          last);
    }
  }

  /** Where the ends stand. */
  public Path path() {
    return ends.path();
  }

  /** Where the value of a row of the batch begins: entry row; it ends at the next entry. The same array always. */
  public int[] ends() {
    return places;
  }

  /** Byte in the batch's array at which the value of a row begins. */
  public int from(int row) {
    return places[row];
  }

  /** Byte after the value of a row. */
  public int to(int row) {
    return places[row + 1];
  }

  /** Bytes of the batch in its array. */
  public int length() {
    return places[storedRows];
  }

  /** How many of the rows have values of together 32 MiB or less; at least one. */
  public int room(long first, int rows) throws IOException {
    load(first, rows);
    int fitting = 1;
    while (fitting < rows && stored.getLong(8 * fitting) - before <= MOST_BYTES) {
      fitting++;
    }
    return fitting;
  }

  /**
   * The bytes of the values of a batch, valid until the next call.
   *
   * @throws ReadFailure ends are out of order, or beyond the committed bytes
   */
  public byte[] move(long first, int rows) throws IOException {
    load(first, rows);
    long previous = before;
    for (int row = 0; row < rows; row++) {
      long end = stored.getLong(8 * row);
      if (end < previous || end > values.state().size() || end - before > Integer.MAX_VALUE - 64) {
        throw ReadFailure.damaged(
            "end of a value is negative, before its predecessor or beyond the committed bytes",
            ends.path() + ", entry " + (first + row) + ", byte " + 8 * (first + row) + " of the data",
            previous + " to " + values.state().size(),
            end);
      }
      places[row + 1] = (int) (end - before);
      previous = end;
    }
    storedRows = rows;
    int length = places[rows];
    if (data.length < length) {
      data = new byte[Math.max(length, (int) Math.min(2L * data.length, MOST_BYTES))];
    }
    values.read(before, ByteBuffer.wrap(data, 0, length));
    return data;
  }

  private void load(long first, int rows) throws IOException {
    if (first == storedFirst && rows <= storedRows) {
      return;
    }
    before = first == 0 ? 0 : endOf(first - 1);
    stored.clear().limit(8 * rows);
    ends.read(8 * first, stored);
    storedFirst = first;
    storedRows = rows;
    if (before < 0 || before > values.state().size()) {
      throw ReadFailure.damaged(
          "end of a value is negative, before its predecessor or beyond the committed bytes",
          ends.path() + ", entry " + (first - 1),
          "0 to " + values.state().size(),
          before);
    }
  }

  private long endOf(long row) throws IOException {
    if (storedFirst >= 0 && row >= storedFirst && row < storedFirst + storedRows) {
      return stored.getLong((int) (8 * (row - storedFirst)));
    }
    ByteBuffer one = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
    ends.read(8 * row, one);
    return one.getLong(0);
  }

  @Override
  public void close() throws IOException {
    try (ends) {
      values.close();
    }
  }
}
