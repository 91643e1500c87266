package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

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
    charset =
        switch (name) {
          case "UTF_8" -> StandardCharsets.UTF_8;
          case "ISO_8859_1" -> StandardCharsets.ISO_8859_1;
          case "US_ASCII" -> StandardCharsets.US_ASCII;
          case "UTF_16" -> StandardCharsets.UTF_16;
          case "UTF_16BE" -> StandardCharsets.UTF_16BE;
          case "UTF_16LE" -> StandardCharsets.UTF_16LE;
          default -> throw new IllegalArgumentException("charset " + name);
        };
  }

  /** Whether its bytes are UTF-8 if they are text at all. */
  boolean isUtf8() {
    return charset == StandardCharsets.UTF_8;
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
   * The text in bytes [from, to); it keeps the array where that has UTF-8.
   *
   * @param plain whether {@link #isPlain} holds for them
   * @param where of the value, for errors: its file and row or entry
   * @return null where there are no bytes
   */
  public UTF8String text(byte[] data, int from, int to, boolean plain, Object where) throws ReadFailure {
    int length = to - from;
    if (length == 0) {
      return null;
    }
    if (length == 1 && data[from] == 0) {
      return UTF8String.EMPTY_UTF8;
    }
    if (plain) {
      return UTF8String.fromBytes(data, from, length);
    }
    try {
      CharSequence decoded =
          charset
              .newDecoder()
              .onMalformedInput(CodingErrorAction.REPORT)
              .onUnmappableCharacter(CodingErrorAction.REPORT)
              .decode(ByteBuffer.wrap(data, from, length));
      return charset == StandardCharsets.UTF_8
          ? UTF8String.fromBytes(data, from, length)
          : UTF8String.fromString(decoded.toString());
    } catch (CharacterCodingException error) {
      throw ReadFailure.damaged("bytes are not text in the column's charset", where, name, error.toString());
    }
  }
}
