package io.sparkhaven.spark.plan;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * An index of locations of history: a directory with a file of keys for each of its columns, and files of the rows.
 *
 * @param directory its name, {@code Index-} and the names of the columns
 * @param names of all key columns, as the files have them
 * @param columns of the data frame that the first keys are; at least one
 * @param keys the forms of these keys
 * @param begin how a file begins that has the first row of each key
 * @param end how the one beside it begins, of the rows behind the last
 * @param rowSet how a file begins that has a set of rows of each key instead
 */
public record IndexForm(
    String directory,
    List<String> names,
    List<String> columns,
    List<ColumnForm> keys,
    byte[] begin,
    byte[] end,
    byte[] rowSet) {

  static IndexForm of(JsonNode entry) {
    HexFormat hex = HexFormat.of();
    List<ColumnForm> keys = new ArrayList<>();
    entry.required("keys").forEach(key -> keys.add(ColumnForm.of(key)));
    return new IndexForm(
        entry.required("directory").asText(),
        texts(entry.required("names")),
        texts(entry.required("columns")),
        keys,
        hex.parseHex(entry.required("begin").asText()),
        hex.parseHex(entry.required("end").asText()),
        hex.parseHex(entry.required("rowSet").asText()));
  }

  private static List<String> texts(JsonNode listed) {
    List<String> texts = new ArrayList<>();
    listed.forEach(text -> texts.add(text.asText()));
    return texts;
  }
}
