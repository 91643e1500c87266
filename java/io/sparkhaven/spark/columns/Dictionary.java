package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The symbols of one column in one location, by number. It never changes, and tasks share it. Texts of a small one are
 * objects from the beginning; those of a large one are made when a row has them, since most may be in no row.
 */
final class Dictionary {
  private static final int FEW = 1 << 16;
  private static final long MOST_BYTES = 2_000_000_000; // of an array
  private static final int PER_TEXT = 64; // bytes of the objects of a text and of its array, and of the reference

  private final byte[] data;
  private final int[] ends;
  private final UTF8String[] texts; // null: of a large one
  private final boolean hasNull;

  private Dictionary(byte[] data, int[] ends, UTF8String[] texts, boolean hasNull) {
    this.data = data;
    this.ends = ends;
    this.texts = texts;
    this.hasNull = hasNull;
  }

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
    boolean plain = charset.isPlain(data, 0, data.length);
    boolean large = ends.length > FEW && (plain || charset.isUtf8());
    UTF8String[] texts = large ? null : new UTF8String[ends.length];
    boolean hasNull = false;
    int from = 0;
    for (int number = 0; number < ends.length; number++) {
      hasNull |= ends[number] == from;
      if (!large || !plain) {
        UTF8String text = charset.text(data, from, ends[number], plain, new Entry(path, number));
        if (!large) {
          texts[number] = alone(text);
        }
      }
      from = ends[number];
    }
    return new Dictionary(data, ends, texts, hasNull);
  }

  /** A text with an array of its own: where Spark keeps it, as the key of a group, it does not copy such bytes. */
  private static UTF8String alone(UTF8String text) {
    return text == null || text == UTF8String.EMPTY_UTF8 ? text : UTF8String.fromBytes(text.getBytes());
  }

  private static int[] ends(CommittedFile symbols, int limit) throws IOException {
    ByteBuffer table =
        ByteBuffer.wrap(symbols.bytes(0, symbols.state().size())).order(ByteOrder.LITTLE_ENDIAN);
    int[] ends = new int[table.limit() / 8];
    long from = 0;
    for (int entry = 0; entry < ends.length; entry++) {
      long to = table.getLong(8 * entry);
      if (to < from || to > limit) {
        throw ReadFailure.damaged(
            "end of a value is negative, before its predecessor or beyond the committed bytes",
            symbols.path() + ", entry " + entry + ", byte " + 8L * entry + " of the data",
            from + " to " + limit,
            to);
      }
      ends[entry] = (int) to;
      from = to;
    }
    if (from != limit) {
      throw ReadFailure.damaged(
          "last symbol does not end with the committed bytes",
          symbols.path() + ", entry " + (ends.length - 1),
          limit,
          from);
    }
    return ends;
  }

  private record Entry(Path file, int number) {
    @Override
    public String toString() {
      return file + ", entry " + number;
    }
  }

  /** Number of symbols. */
  int size() {
    return ends.length;
  }

  /** All texts by number, null where a symbol has no bytes; null: it is a large one. */
  UTF8String[] texts() {
    return texts;
  }

  /** Whether a symbol is null. */
  boolean hasNull() {
    return hasNull;
  }

  boolean isNull(int number) {
    return ends[number] == from(number);
  }

  /** The text of a symbol that is not null. */
  UTF8String text(int number) {
    if (texts != null) {
      return texts[number];
    }
    int from = from(number);
    int length = ends[number] - from;
    return length == 1 && data[from] == 0 ? UTF8String.EMPTY_UTF8 : UTF8String.fromBytes(data, from, length);
  }

  private int from(int number) {
    return number == 0 ? 0 : ends[number - 1];
  }

  /** Bytes in memory, about. */
  long bytes() {
    return data.length + 4L * ends.length + (texts == null ? 0 : (long) PER_TEXT * texts.length);
  }
}
