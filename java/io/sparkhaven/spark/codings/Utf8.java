package io.sparkhaven.spark.codings;

/** UTF-8: checked, written, and made of Java's modified form. */
final class Utf8 {
  private Utf8() {}

  /** Writes a character of the basic plane and returns where its bytes end. */
  static int put(int unit, byte[] out, int position) {
    if (unit < 0x80) {
      out[position] = (byte) unit;
      return position + 1;
    }
    if (unit < 0x800) {
      out[position] = (byte) (0xC0 | unit >> 6);
      out[position + 1] = (byte) (0x80 | unit & 0x3F);
      return position + 2;
    }
    out[position] = (byte) (0xE0 | unit >> 12);
    out[position + 1] = (byte) (0x80 | unit >> 6 & 0x3F);
    out[position + 2] = (byte) (0x80 | unit & 0x3F);
    return position + 3;
  }

  /** DamagedValue: bytes [from, end) are not UTF-8, in its shortest form and without surrogates. */
  static void require(byte[] bytes, int from, int end) throws DamagedValue {
    int position = from;
    while (position < end) {
      int lead = bytes[position];
      if (lead >= 0) {
        position++;
        continue;
      }
      int more = (lead & 0xE0) == 0xC0 ? 1 : (lead & 0xF0) == 0xE0 ? 2 : (lead & 0xF8) == 0xF0 ? 3 : -1;
      if (more < 0 || end - position <= more) {
        throw new DamagedValue();
      }
      int character = lead & 0x3F >> more;
      for (int index = 1; index <= more; index++) {
        character = character << 6 | continuation(bytes[position + index]);
      }
      boolean sound =
          more == 1 ? character >= 0x80 : more == 2 ? character >= 0x800 : character >= 0x10000 && character <= 0x10FFFF;
      if (!sound || character >= 0xD800 && character < 0xE000) {
        throw new DamagedValue();
      }
      position += more + 1;
    }
  }

  /**
   * Writes the UTF-8 of modified UTF-8 bytes [from, end), which has as many bytes at most, and returns its length.
   *
   * <p>DamagedValue: they are not modified UTF-8, or have a surrogate alone. NUL may be {@code 00} or {@code C0 80}.
   */
  static int ofModified(byte[] bytes, int from, int end, byte[] out) throws DamagedValue {
    int position = from;
    int length = 0;
    while (position < end) {
      int lead = bytes[position];
      if (lead >= 0) {
        out[length++] = (byte) lead;
        position++;
        continue;
      }
      int unit = unitAt(bytes, position, end);
      position += (lead & 0xE0) == 0xC0 ? 2 : 3;
      if (!Character.isSurrogate((char) unit)) {
        length = put(unit, out, length);
        continue;
      }
      int low = position < end && bytes[position] < 0 ? unitAt(bytes, position, end) : 0;
      if (!Character.isHighSurrogate((char) unit) || !Character.isLowSurrogate((char) low)) {
        throw new DamagedValue();
      }
      position += 3;
      int character = Character.toCodePoint((char) unit, (char) low);
      out[length++] = (byte) (0xF0 | character >> 18);
      out[length++] = (byte) (0x80 | character >> 12 & 0x3F);
      out[length++] = (byte) (0x80 | character >> 6 & 0x3F);
      out[length++] = (byte) (0x80 | character & 0x3F);
    }
    return length;
  }

  /** The UTF-16 unit of two or three bytes of modified UTF-8. */
  private static int unitAt(byte[] bytes, int position, int end) throws DamagedValue {
    int lead = bytes[position];
    int more = (lead & 0xE0) == 0xC0 ? 1 : (lead & 0xF0) == 0xE0 ? 2 : -1;
    if (more < 0 || end - position <= more) {
      throw new DamagedValue();
    }
    int unit = lead & (more == 1 ? 0x1F : 0x0F);
    for (int index = 1; index <= more; index++) {
      unit = unit << 6 | continuation(bytes[position + index]);
    }
    boolean sound = more == 1 ? unit >= 0x80 || unit == 0 && lead == (byte) 0xC0 : unit >= 0x800;
    if (!sound) {
      throw new DamagedValue();
    }
    return unit;
  }

  private static int continuation(byte octet) throws DamagedValue {
    if ((octet & 0xC0) != 0x80) {
      throw new DamagedValue();
    }
    return octet & 0x3F;
  }
}
