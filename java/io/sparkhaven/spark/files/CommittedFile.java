package io.sparkhaven.spark.files;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.FileState;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.zip.CRC32;

/**
 * One column file with its committed size. Bytes past that do not exist. It is read and never mapped: a mapping of a
 * file that is cut ends the whole JVM, a read is an error of the query. A small file is read at once and closed.
 */
public final class CommittedFile implements Closeable {
  private static final int SMALL = 1 << 16;
  private static final int BLOCK = 1 << 18; // bytes that are read at once for a checksum

  private final Path path;
  private final int dataOffset;
  private final FileState state;
  private final FileChannel channel;
  private final byte[] content;

  /**
   * Opens a file.
   *
   * @param dataOffset byte of the first row; 0 of a file without a begin of its own
   * @throws ReadFailure it is missing, or shorter than what was committed
   */
  public CommittedFile(Path path, int dataOffset, FileState state) throws IOException {
    this.path = path;
    this.dataOffset = dataOffset;
    this.state = state;
    FileChannel opened = open(path);
    byte[] read = null;
    try {
      long length = dataOffset + state.size();
      if (length <= SMALL) {
        read = new byte[(int) length];
        fill(opened, ByteBuffer.wrap(read), 0);
        opened.close();
      } else if (opened.size() < length) {
        throw shorter(length, opened.size());
      }
    } catch (IOException | RuntimeException error) {
      opened.close();
      throw error;
    }
    channel = opened;
    content = read;
  }

  private static FileChannel open(Path path) throws IOException {
    try {
      return FileChannel.open(path, StandardOpenOption.READ);
    } catch (NoSuchFileException error) {
      throw ReadFailure.missing(path);
    }
  }

  public Path path() {
    return path;
  }

  public FileState state() {
    return state;
  }

  /** What stands before the first row: as many bytes as the offset of the data says. */
  public byte[] begin() throws IOException {
    if (content != null) {
      return Arrays.copyOf(content, dataOffset);
    }
    byte[] begin = new byte[dataOffset];
    fill(channel, ByteBuffer.wrap(begin), 0);
    return begin;
  }

  /**
   * Fills the rest of a buffer.
   *
   * @param position in the committed data; 0 is the first row's
   * @throws ReadFailure the file is shorter now, or bytes past the committed ones are asked for
   */
  public void read(long position, ByteBuffer into) throws IOException {
    if (position < 0 || position + into.remaining() > state.size()) {
      throw ReadFailure.damaged(
          "rows point outside of their values",
          path,
          "bytes below " + state.size(),
          position + " to " + (position + into.remaining()));
    }
    if (content != null) {
      into.put(content, dataOffset + (int) position, into.remaining());
    } else {
      fill(channel, into, dataOffset + position);
    }
  }

  /**
   * Bytes of the data as an array of their own.
   *
   * @param length at most 2 GiB
   */
  public byte[] bytes(long position, long length) throws IOException {
    byte[] bytes = new byte[Math.toIntExact(length)];
    read(position, ByteBuffer.wrap(bytes));
    return bytes;
  }

  /**
   * Compares the committed bytes with their checksum, where {@code checks} asks for it.
   *
   * @param checks null: it does not
   * @throws ReadFailure they have changed
   */
  public CommittedFile checked(Checksums checks) throws IOException {
    if (checks != null) {
      checks.require(this);
    }
    return this;
  }

  /** Updates a checksum with {@code length} bytes of the data from a position on. IOException: there are fewer. */
  void update(CRC32 crc, long position, long length) throws IOException {
    if (content != null) {
      crc.update(content, dataOffset + (int) position, (int) length);
      return;
    }
    ByteBuffer block = ByteBuffer.allocate((int) Math.min(length, BLOCK));
    for (long done = 0; done < length; done += block.limit()) {
      block.clear().limit((int) Math.min(length - done, block.capacity()));
      read(position + done, block);
      crc.update(block.array(), 0, block.limit());
    }
  }

  private void fill(FileChannel from, ByteBuffer into, long position) throws IOException {
    long next = position;
    while (into.hasRemaining()) {
      int count = from.read(into, next);
      if (count < 0) {
        throw shorter(dataOffset + state.size(), from.size());
      }
      next += count;
    }
  }

  private ReadFailure shorter(long expected, long actual) {
    return ReadFailure.damaged(
        "file is shorter than its committed length", path, expected + " bytes", actual + " bytes");
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
