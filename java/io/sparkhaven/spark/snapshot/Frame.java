package io.sparkhaven.spark.snapshot;

import java.nio.charset.StandardCharsets;

/** One frame of a log, checkpoint or removals file: where it begins, the byte after it, and its payload. */
record Frame(long offset, long end, byte[] payload) {
  /** Bytes of the header of a file: magic, and a number of eight bytes. */
  static final int FILE_HEADER = 16;

  /** Bytes before a payload: its length and its CRC-32, four bytes each, little-endian. */
  static final int HEADER = 8;

  private static final int LINE_FEED = '\n';

  /** The JSON of the payload, without what is packed behind it. */
  String text() {
    return new String(payload, 0, textLength(), StandardCharsets.US_ASCII);
  }

  /** Bytes of the JSON of the payload. */
  int textLength() {
    for (int index = 0; index < payload.length; index++) {
      if (payload[index] == LINE_FEED) {
        return index;
      }
    }
    return payload.length;
  }
}
