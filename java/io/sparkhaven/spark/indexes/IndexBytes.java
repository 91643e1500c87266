package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.columns.CommittedFile;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Bytes of a file of an index behind its begin, in blocks: a search asks for entries that lie close together. */
final class IndexBytes implements Closeable {
  private static final int BLOCK = 1 << 13;

  private final CommittedFile file;
  private final int offset;
  private final ByteBuffer block = ByteBuffer.allocate(BLOCK).order(ByteOrder.LITTLE_ENDIAN);
  private long first = -1; // byte of the file that is the first of the block

  /** {@code offset}: bytes that stand before the data. */
  IndexBytes(CommittedFile file, int offset) {
    this.file = file;
    this.offset = offset;
  }

  /** Number of bytes. */
  long size() {
    return file.state().size() - offset;
  }

  /** Bytes [from, to), of which {@code numberAt} and {@code copy} ask next. IOException: there are fewer. */
  private int locate(long from, int length) throws IOException {
    long place = offset + from;
    if (first < 0 || place < first || place + length > first + block.limit()) {
      long start = place / BLOCK * BLOCK;
      start = place + length > start + BLOCK ? place : start;
      block.clear().limit((int) Math.min(BLOCK, file.state().size() - start));
      first = -1;
      file.read(start, block);
      first = start;
    }
    return (int) (place - first);
  }

  /** A little-endian number of 1, 2, 4 or 8 bytes with a sign, at a byte. */
  long numberAt(long position, int width) throws IOException {
    int place = locate(position, width);
    return switch (width) {
      case 1 -> block.get(place);
      case 2 -> block.getShort(place);
      case 4 -> block.getInt(place);
      default -> block.getLong(place);
    };
  }

  /** Bytes [from, to) as an array of their own. */
  byte[] copy(long from, long to) throws IOException {
    int length = Math.toIntExact(to - from);
    if (length > BLOCK) {
      return file.bytes(offset + from, length);
    }
    byte[] bytes = new byte[length];
    if (length > 0) {
      block.get(locate(from, length), bytes);
    }
    return bytes;
  }

  @Override
  public void close() throws IOException {
    file.close();
  }
}
