package io.sparkhaven.spark.plan;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Names that many locations have in common: of files, of the columns of each group of statistics, of index files. */
final class Shape {
  /** Files; their sizes stand in this order. */
  final int files;

  /** Columns of each group. */
  final int[] widths;

  /** Files of indexes, by their paths below the location; their sizes stand in this order. */
  final Map<String, Integer> indexFiles = new LinkedHashMap<>();

  /** Indexes that begin with a column of the data frame. */
  final List<IndexForm> indexes = new ArrayList<>();

  /** Names in these locations of the columns that have another one there, by their names in the data frame. */
  final Map<String, String> names = new HashMap<>();

  private final Map<String, Integer> numbers = new HashMap<>();
  private final Map<String, int[]> statistics = new HashMap<>();

  /** {@code forms}: of all indexes. */
  Shape(JsonNode shape, IndexForm[] forms) {
    shape.required(2).forEach(name -> indexFiles.put(name.asText(), indexFiles.size()));
    shape.required(3).properties().forEach(entry -> names.put(entry.getKey(), entry.getValue().asText()));
    shape.required(4).forEach(number -> indexes.add(forms[number.asInt()]));
    JsonNode listed = shape.required(0);
    files = listed.size();
    listed.forEach(name -> numbers.put(name.asText(), numbers.size()));
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
