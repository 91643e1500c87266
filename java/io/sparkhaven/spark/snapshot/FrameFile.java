package io.sparkhaven.spark.snapshot;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.zip.CRC32;

/**
 * A file of frames as {@code store/framing.py} documents them. It reads one inode, whatever is renamed over
 * its name, up to the size that the file had when it was opened.
 */
final class FrameFile implements Closeable {
  /** Bytes of the header of a file: magic, and a number of eight bytes. */
  static final int FILE_HEADER = 16;

  /** Bytes before a payload: its length and its CRC-32, four bytes each, little-endian. */
  static final int HEADER = 8;

  private static final int PIECE = 1 << 16;
  private static final byte[] OPENING = {'{', '"'};

  private final Path path;
  private final FileChannel channel;
  private final long size;
  private byte[] piece = {};
  private long pieceStart;

  /** NoSuchFileException where there is none. */
  FrameFile(Path path) throws IOException {
    this.path = path;
    channel = FileChannel.open(path, StandardOpenOption.READ);
    size = channel.size();
  }

  long size() {
    return size;
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }

  /** Bytes from an offset on, fewer at the end of the file. */
  byte[] read(long offset, int length) throws IOException {
    int wanted = (int) Math.max(0, Math.min(length, size - offset));
    ByteBuffer buffer = ByteBuffer.allocate(wanted);
    while (buffer.hasRemaining() && channel.read(buffer, offset + buffer.position()) >= 0) {
      continue;
    }
    return buffer.hasRemaining() ? Arrays.copyOf(buffer.array(), buffer.position()) : buffer.array();
  }

  /**
   * The magic's version and the number in the header of the file. ReadFailure: another kind of file, or a version
   * above that of {@code magic}.
   */
  Header header(String magic) throws IOException, ReadFailure {
    return Header.of(read(0, FILE_HEADER), magic, path);
  }

  /** The sound frame that begins there; null at the end, and where its length or checksum does not hold. */
  Frame frame(long offset) throws IOException {
    if (offset + HEADER > size || !load(offset, HEADER)) {
      return null;
    }
    long length = unsigned(piece, (int) (offset - pieceStart));
    if (length < OPENING.length || offset + HEADER + length > size
        || !load(offset, HEADER + (int) length)) {
      return null;
    }
    return sound(piece, (int) (offset - pieceStart), offset);
  }

  /** ReadFailure: after the last sound frame, which ends there, another sound one follows. A torn tail is none. */
  void refuseDamage(long end) throws IOException, ReadFailure {
    byte[] rest = read(end, (int) Math.min(size - end, Integer.MAX_VALUE - 8));
    int sound = 0;
    long first = 0;
    int position = opening(rest, HEADER);
    while (position >= 0) {
      Frame frame = sound(rest, position - HEADER, end + position - HEADER);
      if (frame != null && sound++ == 0) {
        first = frame.offset();
      }
      position = opening(rest, frame == null ? position + 1 : (int) (frame.end() - end));
    }
    if (sound > 0) {
      throw ReadFailure.of("CorruptFileError", "a record before the last one is damaged", path + " at byte " + end,
          "a frame whose checksum holds",
          "damage, then " + sound + " sound records from byte " + first,
          "restore the file from a copy. Nothing was changed or deleted");
    }
  }

  private boolean load(long offset, int length) throws IOException {
    if (offset < pieceStart || offset + length > pieceStart + piece.length) {
      piece = read(offset, Math.max(length, PIECE));
      pieceStart = offset;
    }
    return piece.length >= length;
  }

  private static Frame sound(byte[] data, int start, long offset) {
    if (start < 0 || start + HEADER > data.length) {
      return null;
    }
    long length = unsigned(data, start);
    int begin = start + HEADER;
    if (length < OPENING.length || begin + length > data.length) {
      return null;
    }
    CRC32 checksum = new CRC32();
    checksum.update(data, begin, (int) length);
    if (checksum.getValue() != unsigned(data, start + 4)) {
      return null;
    }
    long end = offset + HEADER + length;
    return new Frame(offset, end, Arrays.copyOfRange(data, begin, begin + (int) length));
  }

  private static long unsigned(byte[] data, int index) {
    return ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN).getInt(index) & 0xFFFFFFFFL;
  }

  private static int opening(byte[] data, int from) {
    for (int index = from; index + 1 < data.length; index++) {
      if (data[index] == OPENING[0] && data[index + 1] == OPENING[1]) {
        return index;
      }
    }
    return -1;
  }

  /** One frame of a log, checkpoint or removals file: where it begins, the byte after it, and its payload. */
  record Frame(long offset, long end, byte[] payload) {
    /** The JSON of the payload, without what is packed behind it. */
    String text() {
      return new String(payload, 0, textLength(), StandardCharsets.US_ASCII);
    }

    /** Bytes of the JSON of the payload. */
    int textLength() {
      for (int index = 0; index < payload.length; index++) {
        if (payload[index] == '\n') {
          return index;
        }
      }
      return payload.length;
    }
  }

  /** The header of a file of frames: the number that the kind of file defines. */
  record Header(long number) {
    private static final int VERSION_AT = 6;
    private static final int PLACE_BITS = 40;

    /** ReadFailure: another kind of file than {@code magic} says, or another version. */
    static Header of(byte[] data, String magic, Path path) throws ReadFailure {
      if (data.length < FILE_HEADER) {
        throw ReadFailure.damaged("file ends inside its header", path.toString(), FILE_HEADER + " bytes",
            data.length + " bytes");
      }
      String stored = new String(data, 0, magic.length(), StandardCharsets.ISO_8859_1);
      if (!stored.equals(magic)) {
        boolean same = kind(stored).equals(kind(magic));
        throw ReadFailure.of(same ? "UnsupportedVersionError" : "CorruptFileError",
            "file starts with other bytes", path + " at byte 0", quoted(magic), quoted(stored), null);
      }
      return new Header(ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN).getLong(magic.length()));
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
}
