package io.sparkhaven.spark.codings;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Arrays, each value a Java stream of its own: a head, the number of elements in four bytes, and the elements. Streams
 * are compared with the bytes that they must have, and no class is ever loaded.
 */
final class ArrayStreams {
  private static final Map<Character, Long> SERIAL =
      Map.of(
          'B', 0xACF317F8060854E0L,
          'S', 0xEF832E06E55DB0FAL,
          'I', 0x4DBA602676EAB2A5L,
          'J', 0x782004B512B17593L,
          'F', 0x0B9C818922E00C42L,
          'D', 0x3EA68C14AB635A1EL,
          'C', 0xB02666B0E25D84ACL,
          'Z', 0x578F203914B85DE2L);
  private static final int NULL = 0x70;
  private static final int REFERENCE = 0x71; // to an element that came before, by its number
  private static final int OBJECT = 0x73;
  private static final int STRING = 0x74; // its length in two bytes, and modified UTF-8
  private static final int LONG_STRING = 0x7C; // its length in eight

  private static final byte[] TEXTS = head("[Ljava.lang.String;", 0xADD256E7E91D7B47L);
  private static final int FIRST_TEXT = 0x7E0002; // numbers before it: the class, the array
  private static final byte[] INSTANTS = head("[Ljava.time.Instant;", 0x7B94DF453B29B54FL);
  private static final byte[] CLASS = description("java.time.Ser", 0x955D84BA1B2248B2L, 0x0C); // of the first element
  private static final byte[] SAME_CLASS = {REFERENCE, 0, 0x7E, 0, 2};
  private static final int FIRST_INSTANT = 0x7E0003; // numbers before it: class, array, class of elements
  private static final long SECOND = 1_000_000_000;

  private ArrayStreams() {}

  /** The head of arrays of a class: magic, version, array, description of the class. */
  private static byte[] head(String name, long serial) {
    byte[] description = description(name, serial, 2);
    ByteBuffer out = ByteBuffer.allocate(5 + description.length);
    return out.putShort((short) 0xACED).putShort((short) 5).put((byte) 0x75).put(description).array();
  }

  /** A description of a class without fields and without a superclass. */
  private static byte[] description(String name, long serial, int flags) {
    byte[] text = name.getBytes(StandardCharsets.US_ASCII);
    ByteBuffer out = ByteBuffer.allocate(1 + 2 + text.length + 8 + 1 + 2 + 2);
    out.put((byte) 0x72).putShort((short) text.length).put(text).putLong(serial).put((byte) flags);
    return out.putShort((short) 0).put((byte) 0x78).put((byte) 0x70).array();
  }

  private static void expect(ByteBuffer value, byte[] bytes) throws DamagedValue {
    int from = value.position();
    value.position(from + bytes.length);
    DamagedValue.unless(Arrays.equals(value.array(), from, from + bytes.length, bytes, 0, bytes.length));
  }

  /** The number of elements, each of which has a byte at least. */
  private static int count(ByteBuffer value, byte[] head) throws DamagedValue {
    expect(value, head);
    int count = value.getInt();
    DamagedValue.unless(count >= 0 && count <= value.remaining());
    return count;
  }

  /** Number of an element that came before. */
  private static int earlier(ByteBuffer value, int first, int elements) throws DamagedValue {
    long number = (long) value.getInt() - first;
    DamagedValue.unless(number >= 0 && number < elements);
    return (int) number;
  }

  /**
   * Numbers and Booleans, by the letter of their class: one of BSIJFDZ. One that is the null value of its type is null.
   * byte[] are bytes, without null.
   */
  static ValueDecoder numbers(char letter) {
    byte[] head = head("[" + letter, SERIAL.get(letter));
    return (value, into, row) -> {
      int count = count(value, head);
      if (letter == 'B') {
        Decoders.putBytes(value, count, into, row);
        return;
      }
      WritableColumnVector elements = into.arrayData();
      int first = elements.appendNotNulls(count);
      into.putArray(row, first, count);
      for (int index = first; index < first + count; index++) {
        Decoders.putPrimitive(letter, value, elements, index);
      }
    };
  }

  /** UTF-16 units as texts of one character, or as their numbers; {@code none}: the unit that means null. */
  static ValueDecoder chars(int none, boolean texts, String column) {
    byte[] head = head("[C", SERIAL.get('C'));
    return (value, into, row) -> {
      int count = count(value, head);
      DamagedValue.unless(value.remaining() == 2 * count);
      WritableColumnVector elements = into.arrayData();
      into.putArray(row, elements.getElementsAppended(), count);
      for (int index = 0; index < count; index++) {
        int unit = value.getChar();
        if (unit == none) {
          elements.appendNull();
        } else if (texts) {
          byte[] text = Characters.TEXTS[Characters.number(unit, column)].getBytes();
          elements.appendByteArray(text, 0, text.length);
        } else {
          elements.appendInt(unit);
        }
      }
    };
  }

  /**
   * Instants. The first element that is not null is {@code 73}, the description of its class and 16 bytes: {@code 77 0D
   * 02}, seconds in eight bytes, nanoseconds in four, {@code 78}. Later ones refer to that description.
   */
  static ValueDecoder instants(InstantForm form) {
    return (value, into, row) -> {
      int count = count(value, INSTANTS);
      WritableColumnVector elements = into.arrayData();
      int first = elements.appendNotNulls(count);
      into.putArray(row, first, count);
      long[] before = new long[count];
      int instants = 0;
      ReadFailure refused = null; // later bytes may be damaged, which comes first
      for (int index = first; index < first + count; index++) {
        int tag = value.get();
        if (tag == NULL) {
          elements.putNull(index);
          continue;
        }
        long instant;
        if (tag == REFERENCE) {
          instant = before[earlier(value, FIRST_INSTANT, instants)];
        } else {
          DamagedValue.unless(tag == OBJECT);
          expect(value, instants == 0 ? CLASS : SAME_CLASS);
          instant = instant(value);
          before[instants++] = instant;
        }
        try {
          elements.putLong(index, form.of(instant));
        } catch (ReadFailure inexact) {
          refused = inexact;
        }
      }
      if (refused != null && !value.hasRemaining()) {
        throw refused;
      }
    };
  }

  private static long instant(ByteBuffer value) throws DamagedValue {
    DamagedValue.unless(value.get() == 0x77 && value.get() == 0x0D && value.get() == 2);
    long seconds = value.getLong();
    int below = value.getInt();
    DamagedValue.unless(value.get() == 0x78 && below >= 0 && below < SECOND);
    long instant =
        seconds < 0
            ? Math.addExact(Math.multiplyExact(seconds + 1, SECOND), below - SECOND)
            : Math.addExact(Math.multiplyExact(seconds, SECOND), below);
    DamagedValue.unless(instant != Long.MIN_VALUE);
    return instant;
  }

  /** Texts, which may be null, or refer to one that came before. */
  static void texts(ByteBuffer value, WritableColumnVector into, int row) throws IOException {
    int count = count(value, TEXTS);
    WritableColumnVector elements = into.arrayData();
    into.putArray(row, elements.getElementsAppended(), count);
    int[] before = new int[count]; // where they are in the elements
    int texts = 0;
    for (int index = 0; index < count; index++) {
      int tag = value.get();
      if (tag == NULL) {
        elements.appendNull();
        continue;
      }
      byte[] text;
      if (tag == REFERENCE) {
        text = elements.getBinary(before[earlier(value, FIRST_TEXT, texts)]);
      } else {
        DamagedValue.unless(tag == STRING || tag == LONG_STRING);
        before[texts++] = elements.getElementsAppended();
        text = text(value, tag == STRING ? value.getChar() : value.getLong());
      }
      elements.appendByteArray(text, 0, text.length);
    }
  }

  /** The UTF-8 of so many bytes of modified UTF-8. NUL may be {@code 00} or {@code C0 80}. */
  private static byte[] text(ByteBuffer value, long length) throws IOException {
    DamagedValue.unless(length >= 0 && length <= value.remaining());
    byte[] bytes = new byte[(int) length];
    value.get(bytes);
    ByteBuffer in = ByteBuffer.wrap(bytes);
    while (in.hasRemaining() && in.get(in.position()) >= 0) {
      in.get();
    }
    if (!in.hasRemaining()) {
      return bytes;
    }
    StringBuilder text = new StringBuilder(new String(bytes, 0, in.position(), StandardCharsets.US_ASCII));
    while (in.hasRemaining()) {
      int lead = in.get();
      int unit = lead;
      if ((lead & 0xE0) == 0xC0) {
        unit = (lead & 0x1F) << 6 | continuation(in);
        DamagedValue.unless(unit >= 0x80 || unit == 0);
      } else if (lead < 0) {
        DamagedValue.unless((lead & 0xF0) == 0xE0);
        unit = (lead & 0x0F) << 12 | continuation(in) << 6 | continuation(in);
        DamagedValue.unless(unit >= 0x800);
      }
      text.append((char) unit);
    }
    ByteBuffer out = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text)); // no half of a character alone
    return Arrays.copyOf(out.array(), out.limit());
  }

  private static int continuation(ByteBuffer in) throws DamagedValue {
    int octet = in.get();
    DamagedValue.unless((octet & 0xC0) == 0x80);
    return octet & 0x3F;
  }
}
