package io.sparkhaven.spark.snapshot;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/**
 * A stream at its pinned epoch, and up to where its records are known: what the log and the removals were to the system
 * (null: not there), where the last record of the log begins and its eight bytes there in hexadecimal, and the place
 * after the last removal. {@code restored}: the older epoch that a rollback has gone back to since, or null.
 */
record PinnedStream(
    String name, String log, String checkpoint, String removals, long epoch, FileIdentity logSeen,
    FileIdentity removalsSeen, long last, String mark, long removalsEnd, Long restored, List<Removal> removed)
    implements Serializable {

  /** From the JSON that {@code plan_file.py} writes. IllegalArgumentException: a part is missing. */
  static PinnedStream of(JsonNode json) {
    List<Removal> removed = new ArrayList<>();
    for (JsonNode entry : json.required("removed")) {
      removed.add(new Removal(entry.required(0).asText(), entry.required(1).asText(),
          entry.required(2).asLong(), entry.required(3).asLong(),
          entry.required(4).asText().equals(Removal.DELETE)));
    }
    JsonNode restored = json.required("restored");
    return new PinnedStream(
        json.required("stream").asText(), json.required("log").asText(), json.required("checkpoint").asText(),
        json.required("removals").asText(), json.required("epoch").asLong(), identity(json.required("logSeen")),
        identity(json.required("removalsSeen")), json.required("last").asLong(), json.required("mark").asText(),
        json.required("removalsEnd").asLong(), restored.isNull() ? null : restored.asLong(), removed);
  }

  private static FileIdentity identity(JsonNode json) {
    if (json.isNull()) {
      return null;
    }
    return new FileIdentity(json.required(0).asLong(), json.required(1).asLong(), json.required(2).asLong(),
        json.required(3).asLong(), json.required(4).asLong());
  }
}
