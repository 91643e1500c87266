package io.sparkhaven.spark.codings;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** How Java streams of arrays begin; streams are compared with these bytes, and no class is ever loaded. */
final class JavaStreams {
  static final int NULL = 0x70;
  static final int REFERENCE = 0x71;
  static final int LENGTH = 4; // bytes of the number of elements behind a head

  private JavaStreams() {}

  /** The head of arrays of a class: magic, version, array, description of the class. */
  static byte[] head(String name, long serial) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    out.writeBytes(new byte[] {(byte) 0xAC, (byte) 0xED, 0, 5, 0x75});
    out.writeBytes(description(name, serial, 2));
    return out.toByteArray();
  }

  /** A description of a class without fields and without a superclass. */
  static byte[] description(String name, long serial, int flags) {
    byte[] text = name.getBytes(StandardCharsets.US_ASCII);
    ByteBuffer out = ByteBuffer.allocate(1 + 2 + text.length + 8 + 1 + 2 + 2);
    out.put((byte) 0x72).putShort((short) text.length).put(text).putLong(serial).put((byte) flags);
    return out.putShort((short) 0).put((byte) 0x78).put((byte) 0x70).array();
  }

  /**
   * The number of elements of an array that begins at {@code from}. Each has a byte at least.
   *
   * @throws DamagedValue another head, or more elements than there are bytes
   */
  static int count(byte[] bytes, int from, int end, byte[] head) throws DamagedValue {
    int position = from + head.length + LENGTH;
    if (position > end || !BigEndian.begins(bytes, from, end, head)) {
      throw new DamagedValue();
    }
    int count = BigEndian.intAt(bytes, from + head.length);
    if (count < 0 || count > end - position) {
      throw new DamagedValue();
    }
    return count;
  }
}
