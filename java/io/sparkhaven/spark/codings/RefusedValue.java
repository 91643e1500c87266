package io.sparkhaven.spark.codings;

/** A sound value that Spark has no form for, by the options of the read; who has the column adds its name. */
public final class RefusedValue extends Exception {
  private static final long serialVersionUID = 1;

  /** What was expected, what was found, and what the reader can do. */
  public final String expected;
  public final String value;
  public final String hint;

  private RefusedValue(String what, String expected, String value, String hint) {
    super(what, null, false, false);
    this.expected = expected;
    this.value = value;
    this.hint = hint;
  }

  /** A char of one UTF-16 unit that is a surrogate, which no text has alone. */
  public static RefusedValue surrogate(int unit) {
    return new RefusedValue(
        "a char is half of a character",
        "a character of one UTF-16 unit",
        String.format("the surrogate U+%04X", unit),
        "read it with option char=int");
  }

  /** Nanoseconds below a microsecond. */
  public static RefusedValue inexact() {
    return new RefusedValue(
        "an Instant has nanoseconds, which Spark's timestamp cannot hold",
        "whole microseconds",
        "a part below one microsecond",
        "read with option instant=long (nanoseconds as bigint, exact), or instant=timestamp-truncate (rounded)");
  }
}
