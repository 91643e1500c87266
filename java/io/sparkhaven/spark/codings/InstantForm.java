package io.sparkhaven.spark.codings;

/** What Spark has an Instant as, by option {@code instant}. */
public enum InstantForm {
  /** A timestamp, of whole microseconds only. */
  EXACT,
  /** A timestamp, rounded down to microseconds. */
  TRUNCATED,
  /** A bigint of nanoseconds. */
  NANOSECONDS;

  /** The form by the option's word. */
  public static InstantForm named(String word) {
    switch (word) {
      case "timestamp":
        return EXACT;
      case "timestamp-truncate":
        return TRUNCATED;
      case "long":
        return NANOSECONDS;
      default:
        throw new IllegalArgumentException("no such form of an Instant: " + word);
    }
  }

  /** Nanoseconds since 1970 in this form; RefusedValue: it cannot hold them. */
  public long of(long nanoseconds) throws RefusedValue {
    if (this == NANOSECONDS) {
      return nanoseconds;
    }
    long microseconds = Math.floorDiv(nanoseconds, 1_000L);
    if (this == EXACT && microseconds * 1_000 != nanoseconds) {
      throw RefusedValue.inexact();
    }
    return microseconds;
  }
}
