package io.sparkhaven.spark.checksums;

import java.io.IOException;

/** Bytes of a file whose checksum is asked for. */
@FunctionalInterface
public interface CommittedBytes {
  /** CRC-32 of {@code length} bytes of the data from a position on. IOException: there are fewer. */
  int crc(long position, long length) throws IOException;
}
