package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.CommittedFile;
import io.sparkhaven.spark.plan.ColumnForm;
import io.sparkhaven.spark.plan.PlannedColumn;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;

/**
 * Values of any length, texts or as a codec wrote them: the i8 ends of the rows in a {@code .dat} file, the bytes in
 * another. Value i is the bytes from end i - 1 (0 for the first row) to end i; null has none.
 */
final class BlobColumn extends LocationColumn {
  private static final int MOST_BYTES = 32 << 20;

  private final CommittedFile ends;
  private final CommittedFile values;
  private final TextCharset charset;
  private final CodedValues coded; // null: they are texts
  private final OnHeapColumnVector vector;
  private final ByteBuffer stored; // the ends of a batch
  private final int[] places; // where the value of each row begins in the bytes of the batch, and the last one ends
  private byte[] data = {};
  private long storedFirst = -1;
  private int storedRows;
  private long before; // where the value of the first row begins in the file

  /**
   * A column.
   *
   * @param ends the {@code .dat} file
   * @param values the {@code .bytes} file
   * @param vector with room for {@code rows}, the most of a batch
   */
  BlobColumn(
      CommittedFile ends,
      CommittedFile values,
      ColumnForm form,
      PlannedColumn column,
      OnHeapColumnVector vector,
      int rows) {
    super(
        vector,
        () -> {
          try (ends) {
            values.close();
          }
        });
    this.ends = ends;
    this.vector = vector;
    this.values = values;
    this.coded = CodedValues.of(form, column.name(), ends.path());
    this.charset = coded == null ? new TextCharset(form.charset()) : null;
    this.stored = ByteBuffer.allocate(8 * rows).order(ByteOrder.LITTLE_ENDIAN);
    this.places = new int[rows + 1];
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

  /** How many of the rows have values of together 32 MiB or less; at least one. */
  @Override
  public int room(long first, int rows) throws IOException {
    load(first, rows);
    int fitting = 1;
    while (fitting < rows && stored.getLong(8 * fitting) - before <= MOST_BYTES) {
      fitting++;
    }
    return fitting;
  }

  @Override
  public void move(long first, int rows) throws IOException {
    load(first, rows);
    place(first, rows);
    storedRows = rows;
    int size = places[rows];
    if (data.length < size) {
      data = new byte[Math.max(size, (int) Math.min(2L * data.length, MOST_BYTES))];
    }
    values.read(before, ByteBuffer.wrap(data, 0, size));
    vector.reset();
    boolean plain = coded == null && charset.isPlain(data, 0, size);
    int base = plain ? vector.arrayData().appendBytes(size, data, 0) : 0;
    for (int row = 0; row < rows; row++) {
      int from = places[row];
      int to = places[row + 1];
      if (from == to) {
        vector.putNull(row);
      } else if (plain) {
        vector.putArray(row, base + from, to - from == 1 && data[from] == 0 ? 0 : to - from);
      } else if (coded != null) {
        coded.put(data, from, to - from, vector, row, first + row);
      } else {
        vector.putByteArray(row, charset.text(data, from, to, ends.path() + ", row " + (first + row)));
      }
    }
  }

  private void place(long first, int rows) throws ReadFailure {
    long previous = before;
    for (int row = 0; row < rows; row++) {
      long end = stored.getLong(8 * row);
      if (end < previous || end > values.state().size() || end - before > Integer.MAX_VALUE - 64) {
        throw outside(
            "entry " + (first + row) + ", byte " + 8 * (first + row) + " of the data", previous, end);
      }
      places[row + 1] = (int) (end - before);
      previous = end;
    }
  }

  private ReadFailure outside(String entry, long least, long end) {
    return ReadFailure.damaged(
        "end of a value is negative, before its predecessor or beyond the committed bytes",
        ends.path() + ", " + entry,
        least + " to " + values.state().size(),
        end);
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
      throw outside("entry " + (first - 1), 0, before);
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
}
