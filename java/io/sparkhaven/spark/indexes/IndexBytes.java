package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.files.CommittedFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Bytes of a file of an index behind its begin, in blocks: a search asks for entries that lie close together. */
final class IndexBytes {
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

  /** Bytes [from, to), of which {@link #numberAt} and {@link #copy} ask next. IOException: there are fewer. */
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

  /** The little-endian number of 8 bytes in an entry. */
  long numberAt(long entry) throws IOException {
    return block.getLong(locate(Long.BYTES * entry, Long.BYTES));
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
}
