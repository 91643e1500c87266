package io.sparkhaven.spark.plan;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.HexFormat;

/**
 * How keys stand in the grouping inside of the begin of a {@code .dat} file, which is a Java stream.
 *
 * @param before how many things have a number in the stream before the map of the grouping
 * @param head what stands before the value of a boxed key where one comes first; nothing of texts
 * @param declared whether the class of the keys is declared there
 */
public record GroupingKeys(int before, byte[] head, boolean declared) implements Serializable {
  static GroupingKeys of(JsonNode entry) {
    return entry.isNull()
        ? null
        : new GroupingKeys(
            entry.required("before").asInt(),
            HexFormat.of().parseHex(entry.required("head").asText()),
            entry.required("declared").asBoolean());
  }
}
