package io.sparkhaven.spark.files;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.util.Map;
import java.util.zip.CRC32;

/**
 * Compares the committed bytes of files with their CRC-32 when a process first touches them, as {@code
 * store/scan/checksums.py} does. What was compared is remembered by device, inode and length, while the file does
 * nothing but grow: then only its new bytes are read. Files below 16 KiB are compared each time.
 */
public final class Checksums {
  private static final int KEPT_FROM = 1 << 14;
  private static final int KEPT_FILES = 1 << 16;
  private static final int MOST_PREFIXES = 4; // epochs that are read in turn
  private static final Checksums PROCESS = new Checksums(true);
  private static final Checksums EACH = new Checksums(false);

  private record Key(long device, long inode) {}

  /** Prefixes of one file that were compared, by length. Who uses it holds its lock. */
  private static final class Compared {
    private final Map<Long, Integer> prefixes = new RecentMap<>(MOST_PREFIXES);
    private FileIdentity identity;
    private CRC32 running = new CRC32(); // of the longest
    private long length;

    /** Whether the prefix was compared; forgets all if more than an append happened to the file since. */
    private boolean has(FileIdentity now, long size, int crc) {
      if (identity != null && identity.changed() != now.changed() && now.size() <= identity.size()) {
        prefixes.clear();
        length = 0;
      }
      identity = now;
      Integer compared = prefixes.get(size);
      return compared != null && compared == crc;
    }

    private void compare(CommittedFile file, long size, int crc) throws IOException {
      if (0 < length && length <= size) {
        CRC32 continued = running;
        long from = length;
        length = 0; // until it is known what the new bytes are
        file.update(continued, from, size - from);
        if ((int) continued.getValue() == crc) {
          keep(continued, size);
          return;
        }
        // a rollback may have put other bytes behind a shorter prefix
      }
      CRC32 whole = new CRC32();
      file.update(whole, 0, size);
      require(file, whole);
      keep(whole, size);
    }

    private void keep(CRC32 crc, long size) {
      prefixes.put(size, (int) crc.getValue());
      if (size >= length) {
        running = crc;
        length = size;
      }
    }
  }

  private final boolean remembers;
  private final Map<Key, Compared> memory = new RecentMap<>(KEPT_FILES);

  private Checksums(boolean remembers) {
    this.remembers = remembers;
  }

  /**
   * By option {@code checksumVerify}: {@code read} has the memory of the process, {@code open} none; null: nothing is
   * compared.
   */
  public static Checksums of(String mode) {
    return switch (mode) {
      case "read" -> PROCESS;
      case "open" -> EACH;
      case "scrub", "off" -> null;
      default -> throw new IllegalArgumentException("no such mode of checksumVerify: " + mode);
    };
  }

  /** Whether a file that has not changed is compared once only. */
  public boolean remembers() {
    return remembers;
  }

  /**
   * Compares the committed bytes of a file.
   *
   * @throws ReadFailure they have changed
   * @throws IOException the file is shorter, or cannot be read
   */
  void require(CommittedFile file) throws IOException {
    long size = file.state().size();
    if (!remembers || size < KEPT_FROM) {
      CRC32 whole = new CRC32();
      file.update(whole, 0, size);
      require(file, whole);
      return;
    }
    FileIdentity identity = FileIdentity.of(file.path());
    if (identity == null) {
      throw ReadFailure.missing(file.path());
    }
    Compared compared;
    synchronized (memory) {
      compared = memory.computeIfAbsent(new Key(identity.device(), identity.inode()), key -> new Compared());
    }
    synchronized (compared) { // others that read the same file wait, and then know
      if (!compared.has(identity, size, file.state().crc())) {
        compared.compare(file, size, file.state().crc());
      }
    }
  }

  private static void require(CommittedFile file, CRC32 computed) throws ReadFailure {
    if ((int) computed.getValue() != file.state().crc()) {
      throw ReadFailure.damaged(
          "checksum does not match. Committed bytes have changed",
          file.path(),
          "CRC-32 %08x over %d bytes of data, as committed".formatted(file.state().crc(), file.state().size()),
          "CRC-32 %08x".formatted(computed.getValue()));
    }
  }
}
