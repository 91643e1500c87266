package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.unsafe.Platform;

/**
 * Bytes of texts in the charset of a column. The empty text is the single byte 00, null has no bytes. Bytes that are
 * not text of the charset are an error, never replaced.
 */
public final class TextCharset {
  private static final long HIGH = 0x8080808080808080L;

  private final Charset charset;
  private final String name;

  /** By the name that schemas have, like UTF_8 or ISO_8859_1. */
  public TextCharset(String name) {
    this.name = name;
    charset = Charset.forName(name.replace('_', '-'));
  }

  /** Whether its bytes are UTF-8 if they are text at all. */
  boolean isUtf8() {
    return charset.equals(StandardCharsets.UTF_8);
  }

  /** Whether these bytes are their own UTF-8: of a charset that has ASCII, with no others. */
  public boolean isPlain(byte[] data, int from, int to) {
    if (name.startsWith("UTF_16")) {
      return false;
    }
    long high = 0;
    int position = from;
    for (; position + 8 <= to; position += 8) {
      high |= Platform.getLong(data, Platform.BYTE_ARRAY_OFFSET + position);
    }
    for (; position < to; position++) {
      high |= data[position];
    }
    return (high & HIGH) == 0;
  }

  /**
   * The UTF-8 of the text in bytes [from, to), at least one.
   *
   * @param where of the value, for errors: its file and row or entry
   */
  public byte[] text(byte[] data, int from, int to, Object where) throws ReadFailure {
    if (to - from == 1 && data[from] == 0) {
      return new byte[0];
    }
    if (isPlain(data, from, to)) {
      return Arrays.copyOfRange(data, from, to);
    }
    try {
      return charset
          .newDecoder()
          .decode(ByteBuffer.wrap(data, from, to - from))
          .toString()
          .getBytes(StandardCharsets.UTF_8);
    } catch (CharacterCodingException error) {
      throw ReadFailure.damaged("bytes are not text in the column's charset", where, name, error.toString());
    }
  }
}
