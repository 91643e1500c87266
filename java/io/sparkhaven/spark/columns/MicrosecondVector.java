package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;

/** Instants, nanoseconds in the file, as Spark's timestamps in microseconds. */
final class MicrosecondVector extends EntryVector {
  private final String column;
  private final boolean rounded;
  private final long[] microseconds;

  /**
   * Instants of a column.
   *
   * @param rounded whether a part below one microsecond is cut off; else it is an error
   */
  MicrosecondVector(String column, byte[] data, boolean nulls, boolean rounded) {
    super(DataTypes.TimestampType, data, nulls);
    this.column = column;
    this.rounded = rounded;
    this.microseconds = new long[data.length / 8];
  }

  @Override
  void settle(long first, int rows) throws ReadFailure {
    boolean inexact = false;
    for (int row = 0; row < rows; row++) {
      long nanoseconds = Platform.getLong(data, Platform.BYTE_ARRAY_OFFSET + 8L * row);
      long floor = Math.floorDiv(nanoseconds, 1000L);
      inexact |= floor * 1000 != nanoseconds && !(nulls && nanoseconds == Long.MIN_VALUE);
      microseconds[row] = floor;
    }
    if (inexact && !rounded) {
      throw inexact(column, null);
    }
  }

  /** The error for an Instant that a timestamp cannot hold. */
  static ReadFailure inexact(String column, Object where) {
    return ReadFailure.mismatch(
        "an Instant has nanoseconds, which Spark's timestamp cannot hold",
        (where == null ? "" : where + ", ") + "column " + column,
        "whole microseconds",
        "a part below one microsecond",
        "read with option instant=long (nanoseconds as bigint, exact), or instant=timestamp-truncate (rounded)");
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls && Platform.getLong(data, Platform.BYTE_ARRAY_OFFSET + 8L * row) == Long.MIN_VALUE;
  }

  @Override
  public long getLong(int row) {
    return microseconds[row];
  }
}
