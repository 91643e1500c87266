package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.ColumnForm;
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
}
