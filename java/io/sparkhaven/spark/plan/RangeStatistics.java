package io.sparkhaven.spark.plan;

/**
 * What a commit says of one column over rows [start, stop).
 *
 * @param nulls rows without a value
 * @param nans rows with a NaN, which is never a bound
 * @param low at most every value: Long, Double, Boolean or UTF8String; null: not known, or there is no value
 * @param high at least every value
 * @param microseconds false: an Instant has a part below one microsecond
 */
public record RangeStatistics(
    long start, long stop, long nulls, long nans, Object low, Object high, boolean microseconds) {}
