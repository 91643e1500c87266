package io.sparkhaven.spark.snapshot;

/** A rollback to epoch {@code to}, which is itself epoch {@code epoch}: the epochs between the two are no more. */
record Rollback(long to, long epoch) {
  boolean covers(long pinned) {
    return to < pinned && pinned < epoch;
  }
}
