package io.sparkhaven.spark.pushdown;

/**
 * What is known of one column in some rows.
 *
 * @param nulls whether one may be null
 * @param nans whether one may be NaN
 * @param others whether one may be another value
 * @param low at most every other value, in the form of {@link ValueOrder}; null: not known
 * @param high at least every other value; null: not known
 */
record ColumnValues(boolean nulls, boolean nans, boolean others, Object low, Object high) {
  /** Nothing is known. */
  static final ColumnValues UNKNOWN = new ColumnValues(true, true, true, null, null);

  private static final ColumnValues NULL = new ColumnValues(true, false, false, null, null);
  private static final ColumnValues NAN = new ColumnValues(false, true, false, null, null);

  /** All rows have this value; it may be null. */
  static ColumnValues one(Object value) {
    if (value instanceof Double number && number.isNaN()) {
      return NAN;
    }
    return value == null ? NULL : new ColumnValues(false, false, true, value, value);
  }

  boolean bounded() {
    return low != null && high != null;
  }
}
