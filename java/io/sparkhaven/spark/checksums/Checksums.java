package io.sparkhaven.spark.checksums;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Compares the committed bytes of files with their CRC-32 when a process first touches them, as {@code
 * store/scan/checksums.py} does. What was compared is remembered by device, inode and length, while the file does
 * nothing but grow: then only its new bytes are read. Files below 16 KiB are compared each time.
 */
public final class Checksums {
  private static final int KEPT_FROM = 1 << 14;
  private static final int KEPT_FILES = 1 << 16;
  private static final Checksums PROCESS = new Checksums(KEPT_FILES);

  private final int files;
  private final Map<FileIdentity.Key, ComparedFile> memory;

  Checksums(int files) {
    this.files = files;
    memory =
        new LinkedHashMap<>(16, 0.75f, true) {
          private static final long serialVersionUID = 1;

          @Override
          protected boolean removeEldestEntry(Map.Entry<FileIdentity.Key, ComparedFile> eldest) {
            return size() > files;
          }
        };
  }

  /**
   * By option {@code checksumVerify}: {@code read} has the memory of the process, {@code open} none; null: nothing is
   * compared.
   */
  public static Checksums of(String mode) {
    return switch (mode) {
      case "read" -> PROCESS;
      case "open" -> new Checksums(0);
      case "scrub", "off" -> null;
      default -> throw new IllegalArgumentException("no such mode of checksumVerify: " + mode);
    };
  }

  /** Whether a file that has not changed is compared once only. */
  public boolean remembers() {
    return files > 0;
  }

  /**
   * Compares the committed bytes of a file.
   *
   * @param size how many there are
   * @param crc their CRC-32
   * @throws ReadFailure they have changed
   * @throws IOException the file is shorter, or cannot be read
   */
  public void require(Path path, CommittedBytes bytes, long size, int crc) throws IOException {
    if (files == 0 || size < KEPT_FROM) {
      require(path, bytes.crc(0, size), size, crc);
      return;
    }
    FileIdentity identity = FileIdentity.of(path);
    ComparedFile file;
    synchronized (memory) {
      file = memory.computeIfAbsent(identity.key(), key -> new ComparedFile());
    }
    synchronized (file) { // others that read the same file wait, and then know
      if (!file.has(identity, size, crc)) {
        int computed = file.continued(bytes, size);
        if (computed != crc) { // a rollback may have put other bytes behind a shorter prefix
          computed = bytes.crc(0, size);
        }
        require(path, computed, size, crc);
        file.add(size, crc);
      }
    }
  }

  private static void require(Path path, int computed, long size, int crc) throws ReadFailure {
    if (computed == crc) {
      return;
    }
    throw ReadFailure.of(
        "CorruptFileError",
        "checksum does not match. Committed bytes have changed",
        path,
        String.format("CRC-32 %08x over %d bytes of data, as committed", crc, size),
        String.format("CRC-32 %08x", computed),
        null);
  }
}
