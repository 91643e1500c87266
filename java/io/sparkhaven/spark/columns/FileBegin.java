package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.ColumnForm;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;

/** What stands before the first row of a {@code .dat} file, compared with what the writer of such a column puts there. */
public final class FileBegin {
  private static final String BIG_ENDIAN = "BIG_ENDIAN";

  private FileBegin() {}

  /** Whether it is that of a form: alone, beside a file with the grouping, or with the grouping inside. */
  static boolean isOf(byte[] begin, ColumnForm form) {
    return isPadded(begin, form.prefix()) || isPadded(begin, form.overflow()) || hasGrouping(begin, form);
  }

  static ReadFailure damaged(byte[] begin, ColumnForm form, Path path, String column) {
    return ReadFailure.damaged(
        "prefix is damaged. Its bytes differ from the canonical encoding of its content",
        path + ", byte " + Math.max(0, Arrays.mismatch(begin, form.prefix())),
        "the prefix of column " + column + ", " + form.type() + ", width " + form.width(),
        "other bytes");
  }

  /** Whether a writer of the other byte order made it, which Python's readers know. */
  static boolean isBigEndian(byte[] begin) {
    return new String(begin, StandardCharsets.ISO_8859_1).contains(BIG_ENDIAN);
  }

  static ReadFailure refusedOrder(Path path) {
    return ReadFailure.of(
        "SettingsError",
        "the reader in Java does not read column files of this byte order",
        path,
        "LITTLE_ENDIAN",
        BIG_ENDIAN,
        "read the table with the option reader=python, or set spark.sparkhaven.reader to python");
  }

  /** Whether it is a prefix alone: zeros follow. */
  public static boolean isPadded(byte[] begin, byte[] prefix) {
    if (!Arrays.equals(begin, 0, prefix.length, prefix, 0, prefix.length)) {
      return false;
    }
    for (int position = prefix.length; position < begin.length; position++) {
      if (begin[position] != 0) {
        return false;
      }
    }
    return true;
  }

  /** Whether only the value of the last key, the grouping, differs: null there, a map here. */
  private static boolean hasGrouping(byte[] begin, ColumnForm form) {
    byte[] prefix = form.prefix();
    int common = prefix.length - 2; // null, and the end of the map
    return Arrays.equals(begin, 0, common, prefix, 0, common) && InlineGrouping.stands(begin, common, form);
  }

  /**
   * The grouping inside of the begin of a {@code .dat} file: a map from keys to two numbers, as a Java stream. It is not
   * used and never deserialised. What is no such map in the one form in which it is written is damage.
   */
  private static final class InlineGrouping {
    private static final int FIRST = 0x7E0000; // number of the first thing in a stream
    private static final int NONE = -1;
    private static final byte NULL = 0x70;
    private static final byte REFERENCE = 0x71;
    private static final byte CLASS = 0x72;
    private static final byte OBJECT = 0x73;
    private static final byte TEXT = 0x74;
    private static final byte ARRAY = 0x75;
    private static final byte[] LONGS = {0, 2, '[', 'J', 0x78, 0x20, 4, -75, 0x12, -79, 0x75, -109, 2, 0, 0, 0x78, 0x70};

    private final ByteBuffer stream;
    private final ColumnForm form;
    private int next; // number of the next thing
    private int keyClass = NONE; // number of the class of keys, where it is declared here
    private int rangeClass = NONE;

    private InlineGrouping(ByteBuffer stream, ColumnForm form) {
      this.stream = stream;
      this.form = form;
      this.next = FIRST + form.grouping().before();
    }

    /** Whether a grouping begins at a byte, and after it and the end of the outer map nothing but zeros. */
    static boolean stands(byte[] begin, int from, ColumnForm form) {
      if (form.grouping() == null) {
        return false;
      }
      ByteBuffer stream = ByteBuffer.wrap(begin, from, begin.length - from);
      try {
        if (!new InlineGrouping(stream, form).isMap() || !isNext(stream, 0x78, 0)) {
          return false;
        }
      } catch (BufferUnderflowException cut) {
        return false;
      }
      while (stream.hasRemaining()) {
        if (stream.get() != 0) {
          return false;
        }
      }
      return true;
    }

    private static boolean isNext(ByteBuffer stream, int... bytes) {
      for (int expected : bytes) {
        if (stream.get() != (byte) expected) {
          return false;
        }
      }
      return true;
    }

    private boolean isMap() {
      if (!isNext(stream, OBJECT, REFERENCE) || stream.getInt() != FIRST || stream.getInt() != 0x3F400000) {
        return false;
      }
      next++;
      int threshold = stream.getInt();
      if (!isNext(stream, 0x77, 8)) {
        return false;
      }
      int buckets = stream.getInt();
      int count = stream.getInt();
      int expected = 16;
      while (4L * count > 3L * expected) {
        expected *= 2;
      }
      if (count < 0 || buckets != expected || threshold != (count == 0 ? 0 : buckets / 4 * 3)) {
        return false;
      }
      for (int entry = 0; entry < count; entry++) {
        if (!isKey() || !isRange()) {
          return false;
        }
      }
      return isNext(stream, 0x78, 0);
    }

    private boolean isKey() {
      byte[] head = form.grouping().head();
      byte tag = stream.get();
      if (tag == NULL) {
        return true;
      }
      if (head.length == 0) {
        next++;
        return tag == TEXT && isText();
      }
      if (tag != OBJECT) {
        return false;
      }
      if (keyClass != NONE) {
        if (!isNext(stream, REFERENCE) || stream.getInt() != keyClass) {
          return false;
        }
      } else {
        byte[] found = new byte[head.length - 1];
        stream.get(found);
        if (!Arrays.equals(found, 0, found.length, head, 1, head.length)) {
          return false;
        }
        boolean declared = form.grouping().declared();
        keyClass = declared ? next++ : ByteBuffer.wrap(head).getInt(2);
      }
      next++;
      return isBox();
    }

    /** Whether a value is as Java writes it: one NaN, two truth values. */
    private boolean isBox() {
      switch (form.type()) {
        case "Boolean":
          return (stream.get() & 0xFE) == 0;
        case "float":
          int bits = stream.getInt();
          return Float.floatToIntBits(Float.intBitsToFloat(bits)) == bits;
        case "double":
          long wide = stream.getLong();
          return Double.doubleToLongBits(Double.longBitsToDouble(wide)) == wide;
        default:
          stream.position(Math.min(stream.limit(), stream.position() + form.width()));
          return true;
      }
    }

    private boolean isText() {
      int from = stream.position();
      int length = 2 + (stream.getShort() & 0xFFFF);
      byte[] bytes = new byte[Math.min(length, stream.limit() - from)];
      stream.get(from, bytes);
      stream.position(from + bytes.length);
      try {
        String text = new DataInputStream(new ByteArrayInputStream(bytes)).readUTF();
        ByteArrayOutputStream again = new ByteArrayOutputStream();
        new DataOutputStream(again).writeUTF(text);
        return Arrays.equals(bytes, again.toByteArray());
      } catch (IOException error) {
        return false;
      }
    }

    private boolean isRange() {
      if (!isNext(stream, ARRAY)) {
        return false;
      }
      if (rangeClass != NONE) {
        if (!isNext(stream, REFERENCE) || stream.getInt() != rangeClass) {
          return false;
        }
      } else {
        byte[] found = new byte[LONGS.length];
        if (!isNext(stream, CLASS)) {
          return false;
        }
        stream.get(found);
        rangeClass = next++;
        if (!Arrays.equals(found, LONGS)) {
          return false;
        }
      }
      next++;
      if (stream.getInt() != 2) {
        return false;
      }
      stream.getLong();
      stream.getLong();
      return true;
    }
  }
}
