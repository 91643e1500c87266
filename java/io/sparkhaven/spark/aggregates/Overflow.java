package io.sparkhaven.spark.aggregates;

import java.util.ArrayList;
import java.util.List;

/** Sums that were set aside, as a further value would not have fitted. Spark adds them, and says what it says then. */
final class Overflow {
  static final Overflow NONE = new Overflow();

  /** A part of the sum of one group. */
  record Part(int group, long sum) {}

  private final List<Part> parts = new ArrayList<>();

  void add(int group, long sum) {
    parts.add(new Part(group, sum));
  }

  List<Part> parts() {
    return parts;
  }
}
