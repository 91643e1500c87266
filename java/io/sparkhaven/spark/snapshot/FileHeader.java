package io.sparkhaven.spark.snapshot;

import io.sparkhaven.spark.errors.ReadFailure;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.zip.CRC32;

/** The header of a file of frames: the number that the kind of file defines. */
record FileHeader(long number) {
  private static final int VERSION_AT = 6;
  private static final int PLACE_BITS = 40;

  /** ReadFailure: another kind of file than {@code magic} says, or another version. */
  static FileHeader of(byte[] data, String magic, Path path) throws ReadFailure {
    if (data.length < Frame.FILE_HEADER) {
      throw ReadFailure.of("CorruptFileError", "file ends inside its header", path.toString(), Frame.FILE_HEADER + " bytes",
          data.length + " bytes", null);
    }
    String stored = new String(data, 0, magic.length(), StandardCharsets.ISO_8859_1);
    if (!stored.equals(magic)) {
      boolean same = kind(stored).equals(kind(magic));
      throw ReadFailure.of(same ? "UnsupportedVersionError" : "CorruptFileError",
          "file starts with other bytes", path + " at byte 0", quoted(magic), quoted(stored), null);
    }
    return new FileHeader(ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN).getLong(magic.length()));
  }

  /** Whether the number holds a place of removals, with the checksum above it; see {@code removals.py}. */
  boolean holdsPlace() {
    ByteBuffer eight = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(0, place());
    CRC32 checksum = new CRC32();
    checksum.update(eight.array());
    return number == (place() | checksum.getValue() >>> Byte.SIZE << PLACE_BITS);
  }

  /** The place of the first byte of a removals file: by how many bytes it was shortened. */
  long place() {
    return number & ((1L << PLACE_BITS) - 1);
  }

  private static String kind(String magic) {
    return magic.substring(0, VERSION_AT) + magic.substring(VERSION_AT + 1);
  }

  private static String quoted(String magic) {
    return "b'" + magic.replace("\n", "\\n") + "'";
  }
}
