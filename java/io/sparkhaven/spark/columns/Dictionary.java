package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.CommittedFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Texts by number, like the symbols of one column in one location; the number behind the last is null. It never changes,
 * and tasks share it. Few texts are objects from the beginning; many are made when a row has them, since most may be in
 * no row.
 */
public final class Dictionary {
  private static final int FEW = 1 << 16;
  private static final long MOST_BYTES = 2_000_000_000; // of an array
  private static final int PER_TEXT = 64; // bytes of the objects of a text and of its array, and of the reference

  private final UTF8String[] texts; // null: they are many
  private final byte[] data; // of many texts
  private final int[] ends; // where each of many texts begins, and at last where they end
  private final boolean hasNull;

  private Dictionary(UTF8String[] texts, byte[] data, int[] ends, boolean hasNull) {
    this.texts = texts;
    this.data = data;
    this.ends = ends;
    this.hasNull = hasNull;
  }

  /** Of these texts, the last of which is null. */
  public static Dictionary of(UTF8String[] texts) {
    return new Dictionary(texts, null, null, false);
  }

  /**
   * Reads that of a location.
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
    boolean plain = charset.isPlain(data, 0, data.length);
    boolean many = size > FEW && (plain || charset.isUtf8());
    UTF8String[] texts = many ? null : new UTF8String[size + 1];
    boolean hasNull = false;
    for (int number = 0; number < size; number++) {
      boolean isNull = ends[number] == ends[number + 1];
      hasNull |= isNull;
      if (!isNull && !(many && plain)) {
        byte[] text = charset.text(data, ends[number], ends[number + 1], new Entry(path, number));
        if (!many) {
          texts[number] = UTF8String.fromBytes(text);
        }
      }
    }
    return many ? new Dictionary(null, data, ends, hasNull) : new Dictionary(texts, null, null, hasNull);
  }

  private record Entry(Path file, int number) {
    @Override
    public String toString() {
      return file + ", entry " + number;
    }
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

  /** How many texts there are; it is the number of null. */
  int size() {
    return texts == null ? ends.length - 1 : texts.length - 1;
  }

  /** Whether one of them is null. */
  boolean hasNull() {
    return hasNull;
  }

  boolean isNull(int number) {
    return texts == null ? number == ends.length - 1 || ends[number] == ends[number + 1] : texts[number] == null;
  }

  /** The text of a number; null: it has none. */
  public UTF8String text(int number) {
    if (texts != null) {
      return texts[number];
    }
    if (isNull(number)) {
      return null;
    }
    int length = ends[number + 1] - ends[number];
    return length == 1 && data[ends[number]] == 0
        ? UTF8String.EMPTY_UTF8
        : UTF8String.fromBytes(data, ends[number], length);
  }

  /** Bytes in memory, about. */
  long bytes() {
    return texts == null ? data.length + 4L * ends.length : (long) PER_TEXT * texts.length;
  }
}
