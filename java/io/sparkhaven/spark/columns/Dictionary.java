package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.CommittedFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The symbols of one column in one location, by number. It never changes, and tasks share it.
 *
 * @param texts of all numbers, and null behind them
 * @param few the same as objects; null: they are many, most of which may be in no row
 * @param size how many symbols there are
 * @param hasNull whether a symbol is null
 * @param bytes in memory, about
 */
record Dictionary(OnHeapColumnVector texts, UTF8String[] few, int size, boolean hasNull, long bytes) {
  private static final int FEW = 1 << 16;
  private static final long MOST_BYTES = 2_000_000_000; // of an array
  private static final int PER_TEXT = 9; // bytes of its place and length, and whether it is null
  private static final int PER_OBJECT = 28;

  /**
   * Reads it.
   *
   * @param symbols the {@code .sym} file: i8 end of each symbol in the other one
   * @param values the {@code .sym.bytes} file
   * @throws ReadFailure an end does not fit, or bytes are not text
   */
  static Dictionary read(CommittedFile symbols, CommittedFile values, TextCharset charset) throws IOException {
    Path path = symbols.path();
    if (symbols.state().size() % 8 != 0) {
      throw ReadFailure.damaged(
          "symbol offsets are truncated", path, "a multiple of 8 bytes", symbols.state().size());
    }
    if (Math.max(values.state().size(), symbols.state().size()) > MOST_BYTES) {
      throw ReadFailure.of(
          "SettingsError",
          "the symbols of a location are too many for Java's reader",
          values.path(),
          "at most " + MOST_BYTES + " bytes",
          Math.max(values.state().size(), symbols.state().size()),
          "read with option reader=python");
    }
    byte[] data = values.bytes(0, values.state().size());
    int[] ends = ends(symbols, data.length);
    int size = ends.length - 1;
    OnHeapColumnVector texts = new OnHeapColumnVector(ends.length, DataTypes.StringType);
    if (charset.isPlain(data, 0, data.length)) {
      charset.putPlain(data, ends, size, texts);
    } else {
      for (int number = 0; number < size; number++) {
        if (ends[number] == ends[number + 1]) {
          texts.putNull(number);
        } else {
          String where = path + ", entry " + number;
          texts.putByteArray(number, charset.text(data, ends[number], ends[number + 1], where));
        }
      }
    }
    boolean hasNull = texts.hasNull();
    texts.putNull(size);
    UTF8String[] few = size > FEW ? null : PickedVector.objects(texts, size + 1);
    long bytes = data.length + (PER_TEXT + (few == null ? 0L : PER_OBJECT)) * size;
    return new Dictionary(texts, few, size, hasNull, bytes);
  }

  /** Where each symbol begins, and at last where they end. */
  private static int[] ends(CommittedFile symbols, int limit) throws IOException {
    ByteBuffer table =
        ByteBuffer.wrap(symbols.bytes(0, symbols.state().size())).order(ByteOrder.LITTLE_ENDIAN);
    int[] ends = new int[1 + table.limit() / 8];
    for (int entry = 0; entry + 1 < ends.length; entry++) {
      long to = table.getLong(8 * entry);
      if (to < ends[entry] || to > limit) {
        throw ReadFailure.damaged(
            "end of a value is negative, before its predecessor or beyond the committed bytes",
            symbols.path() + ", entry " + entry + ", byte " + 8L * entry + " of the data",
            ends[entry] + " to " + limit,
            to);
      }
      ends[entry + 1] = (int) to;
    }
    if (ends[ends.length - 1] != limit) {
      throw ReadFailure.damaged(
          "last symbol does not end with the committed bytes",
          symbols.path() + ", entry " + (ends.length - 2),
          limit,
          ends[ends.length - 1]);
    }
    return ends;
  }

  /** The text of a number; null: it has none. */
  UTF8String text(int number) {
    return texts.getUTF8String(number);
  }
}
