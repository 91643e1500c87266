package io.sparkhaven.spark.errors;

import java.io.IOException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An error of reading in the words of {@code store/errors.py}: what is wrong, where, what was expected, what is there
 * instead, and what to do. The message has all of them, behind the name of the error. Parts that are null are left out.
 */
public final class ReadFailure extends IOException {
  private static final long serialVersionUID = 1;
  private static final String MISMATCH = "SchemaMismatchError";
  private static final Pattern INDEX = Pattern.compile("/Systems/([^/]+)/MetadataIndex/([^./]+)\\.tlmi");
  private static final Pattern HISTORY =
      Pattern.compile("/Systems/([^/]+)/Partitions/[^/]+/([^/]+)/([A-Za-z_][A-Za-z0-9_]*)");
  private static final Pattern INTRADAY = Pattern.compile("/Intraday/([^/]+)/([^/]+)/[^./][^/]*/[^/]+/");

  private final String kind;

  private ReadFailure(String kind, String message) {
    super(message);
    this.kind = kind;
  }

  /** Name of the error in {@code store/errors.py}. */
  public String kind() {
    return kind;
  }

  /** Whether a value has no form in the type that was asked for, or a column is stored otherwise. */
  public boolean isMismatch() {
    return kind.equals(MISMATCH);
  }

  /** A committed file is not there. */
  public static ReadFailure missing(Object where) {
    return of("CorruptFileError", "a committed file is missing", where, "the file", "nothing", null);
  }

  /** Bytes on disk are not what was committed. */
  public static ReadFailure damaged(String what, Object where, Object expected, Object actual) {
    return of("CorruptFileError", what, where, expected, actual, null);
  }

  /** A value has no form in the type that was asked for, or a column is declared one way and stored another. */
  public static ReadFailure mismatch(String what, Object where, Object expected, Object actual, String hint) {
    return of(MISMATCH, what, where, expected, actual, hint);
  }

  /** What was pinned has changed. */
  public static ReadFailure moved(String what, Object where, Object expected, Object actual, String hint) {
    return of("SnapshotMovedError", what, where, expected, actual, "read", hint);
  }

  /** Any error of that tree. Without a hint a damaged file has that of its place. */
  public static ReadFailure of(
      String kind, String what, Object where, Object expected, Object actual, String hint) {
    return of(kind, what, where, expected, actual, null, hint);
  }

  private static ReadFailure of(
      String kind, String what, Object where, Object expected, Object actual, String phase, String hint) {
    StringBuilder message = new StringBuilder(kind).append(": ").append(what);
    part(message, "where", where);
    part(message, "expected", expected);
    part(message, "found", actual);
    part(message, "phase", phase);
    part(message, "to do", hint == null && kind.equals("CorruptFileError") ? nextStep(where) : hint);
    return new ReadFailure(kind, message.toString());
  }

  private static void part(StringBuilder message, String name, Object value) {
    if (value != null) {
      message.append("\n  ").append(name).append(": ").append(value);
    }
  }

  /**
   * What to do about a damaged file, by its path, in the words of {@code store/next_steps.py}: about a location index, a
   * location of history, one of intraday, or another file.
   */
  private static String nextStep(Object where) {
    String path = String.valueOf(where);
    Matcher index = INDEX.matcher(path);
    if (index.find()) {
      return "`sparkhaven metadata update " + index.group(1) + "." + index.group(2) + "` writes the index again";
    }
    Matcher history = HISTORY.matcher(path);
    if (history.find()) {
      return "restore the file from a copy. While intraday has all rows of the date, run `sparkhaven merge "
          + history.group(1) + "." + history.group(3) + " --dates " + history.group(2) + " --rewrite`";
    }
    Matcher intraday = INTRADAY.matcher(path);
    if (intraday.find()) {
      return "restore the file from a copy, or go back to an epoch before the damage: `sparkhaven epochs rollback "
          + intraday.group(1) + "." + intraday.group(2) + " NAME --to N`, with the name of the stream";
    }
    return "restore the file from a copy. `sparkhaven verify --deep` lists all that is damaged";
  }
}
