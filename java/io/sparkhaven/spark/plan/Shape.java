package io.sparkhaven.spark.plan;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;

/** Names that many locations have in common: of files, and of the columns of each group of statistics. */
final class Shape {
  /** Files; their sizes stand in this order. */
  final int files;

  /** Columns of each group. */
  final int[] widths;

  private final Map<String, Integer> numbers = new HashMap<>();
  private final Map<String, int[]> statistics = new HashMap<>();

  Shape(JsonNode shape) {
    JsonNode names = shape.required(0);
    files = names.size();
    names.forEach(name -> numbers.put(name.asText(), numbers.size()));
    JsonNode groups = shape.required(1);
    widths = new int[groups.size()];
    for (int group = 0; group < widths.length; group++) {
      JsonNode columns = groups.get(group);
      widths[group] = columns.size();
      for (int number = 0; number < widths[group]; number++) {
        statistics.put(columns.get(number).asText(), new int[] {group, number});
      }
    }
  }

  /** Number of a file; -1: there is none of that name. */
  int file(String name) {
    return numbers.getOrDefault(name, -1);
  }

  /** Number of columns that have statistics. */
  int columns() {
    return statistics.size();
  }

  /** Group of a column's statistics, and its number there; null: there are none. */
  int[] statistics(String column) {
    return statistics.get(column);
  }
}
