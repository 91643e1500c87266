package io.sparkhaven.spark.codings;

import io.sparkhaven.spark.errors.ReadFailure;

/**
 * What Spark has the Instants of a column as, by option {@code instant}: {@code timestamp}, of whole microseconds only,
 * {@code timestamp-truncate}, rounded down to microseconds, or {@code long}, a bigint of nanoseconds.
 */
public final class InstantForm {
  private final String column;
  private final boolean exact;
  private final boolean nanoseconds;

  public InstantForm(String word, String column) {
    this.column = column;
    exact = word.equals("timestamp");
    nanoseconds = word.equals("long");
  }

  /** Nanoseconds since 1970 in this form; ReadFailure: it cannot hold them. */
  public long of(long instant) throws ReadFailure {
    if (nanoseconds) {
      return instant;
    }
    long microseconds = Math.floorDiv(instant, 1_000L);
    if (exact && microseconds * 1_000 != instant) {
      throw ReadFailure.mismatch(
          "an Instant has nanoseconds, which Spark's timestamp cannot hold",
          "column " + column,
          "whole microseconds",
          "a part below one microsecond",
          "read with option instant=long (nanoseconds as bigint, exact), or instant=timestamp-truncate (rounded)");
    }
    return microseconds;
  }
}
