package io.sparkhaven.spark.snapshot;

import io.sparkhaven.spark.plan.LocationRef;
import java.io.Serializable;

/**
 * One location of a stream that was truncated or deleted. {@code since}: the epoch that made it. {@code made}: when
 * that was (ms), 0 where it is not known. {@code deleted}: else it was truncated.
 */
record Removal(String internal, String value, long since, long made, boolean deleted) implements Serializable {
  static final String DELETE = "delete";
  static final String TRUNCATE = "truncate";

  /** Whether it is this location, not one that was created again under its name. */
  boolean means(LocationRef location) {
    return since == location.since() && internal.equals(location.internal()) && value.equals(location.value())
        && (made == location.made() || made == 0 || location.made() == 0);
  }
}
