package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.checksums.Checksums;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.FileState;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import org.apache.spark.unsafe.types.UTF8String;

/** The symbols of one column in one location, by number. It never changes, and tasks share it. */
final class Dictionary {
  private static final int PER_TEXT = 40; // bytes of a text's object and of the reference to it

  private final UTF8String[] texts;
  private final long size;
  private final boolean hasNull;

  private Dictionary(UTF8String[] texts, long bytes) {
    this.texts = texts;
    this.size = bytes + (long) PER_TEXT * texts.length;
    boolean none = false;
    for (UTF8String text : texts) {
      none |= text == null;
    }
    this.hasNull = none;
  }

  /**
   * Reads it.
   *
   * @param ends the {@code .sym} file: i8 end of each symbol in the other one
   * @param bytes the {@code .sym.bytes} file
   * @throws ReadFailure an end does not fit, or bytes are not text
   */
  static Dictionary read(
      Path ends, FileState endsState, Path bytes, FileState bytesState, TextCharset charset, Checksums checks)
      throws IOException {
    if (endsState.size() % 8 != 0) {
      throw ReadFailure.damaged("symbol offsets are truncated", ends, "a multiple of 8 bytes", endsState.size());
    }
    byte[] stored = whole(ends, endsState, checks);
    byte[] data = whole(bytes, bytesState, checks);
    ByteBuffer table = ByteBuffer.wrap(stored).order(ByteOrder.LITTLE_ENDIAN);
    UTF8String[] texts = new UTF8String[stored.length / 8];
    boolean plain = charset.isPlain(data, 0, data.length);
    int from = 0;
    for (int entry = 0; entry < texts.length; entry++) {
      long to = table.getLong(8 * entry);
      if (to < from || to > data.length) {
        throw ReadFailure.damaged(
            "end of a value is negative, before its predecessor or beyond the committed bytes",
            ends + ", entry " + entry + ", byte " + 8L * entry + " of the data",
            from + " to " + data.length,
            to);
      }
      texts[entry] = charset.text(data, from, (int) to, plain, new Entry(ends, entry));
      from = (int) to;
    }
    if (from != data.length) {
      throw ReadFailure.damaged(
          "last symbol does not end with the committed bytes",
          ends + ", entry " + (texts.length - 1),
          data.length,
          from);
    }
    return new Dictionary(texts, data.length);
  }

  private record Entry(Path file, int number) {
    @Override
    public String toString() {
      return file + ", entry " + number;
    }
  }

  private static byte[] whole(Path path, FileState state, Checksums checks) throws IOException {
    try (CommittedFile file = new CommittedFile(path, 0, state)) {
      return file.checked(checks).bytes(0, state.size());
    }
  }

  /** By number; null where a symbol has no bytes. */
  UTF8String[] texts() {
    return texts;
  }

  /** Whether a symbol is null. */
  boolean hasNull() {
    return hasNull;
  }

  /** Bytes in memory, about. */
  long size() {
    return size;
  }
}
