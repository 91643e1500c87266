package io.sparkhaven.spark.pushdown;

import java.util.ArrayList;
import java.util.List;

/**
 * What of a condition an index answers: columns that are one of some values. Each row for which the condition is true
 * fulfils it, and others may, too.
 */
public sealed interface Lookup {
  /**
   * A column is one of these values.
   *
   * @param order of the column
   * @param keys in the form of that order; null is none of them
   */
  record Keys(String column, ValueOrder order, List<Object> keys) implements Lookup {}

  /** All parts hold. */
  record All(List<Lookup> parts) implements Lookup {}

  /** One of the parts holds. */
  record Any(List<Lookup> parts) implements Lookup {}

  /** That all of these hold; those that are null are not known. None of them: null. */
  static Lookup all(List<Lookup> several) {
    List<Lookup> parts = new ArrayList<>();
    for (Lookup part : several) {
      if (part instanceof All both) {
        parts.addAll(both.parts);
      } else if (part != null) {
        parts.add(part);
      }
    }
    return parts.size() > 1 ? new All(parts) : parts.isEmpty() ? null : parts.get(0);
  }

  /** That one of two holds; null: of one of them nothing is known. */
  static Lookup any(Lookup one, Lookup other) {
    return one == null || other == null ? null : new Any(List.of(one, other));
  }
}
