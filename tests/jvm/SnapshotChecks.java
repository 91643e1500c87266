import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.NoSuchFileException;
import java.util.List;

/**
 * Answers questions, a line of JSON each: {"pins", "location", "how"}; how is require, counted, or the name of a file
 * that could not be read. The answer is the message of the error, or null.
 */
public final class SnapshotChecks {
  private static final ObjectMapper JSON = new ObjectMapper();

  private SnapshotChecks() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode question = JSON.readTree(line);
      SnapshotCheck check = sent(SnapshotCheck.of(question.required("pins")));
      System.out.println(JSON.writeValueAsString(
          answer(check, location(question.required("location")), question.required("how").asText())));
    }
  }

  private static String answer(SnapshotCheck check, LocationRef location, String how) {
    try {
      switch (how) {
        case "require" -> check.require(List.of(location));
        case "counted" -> check.requireCounted(List.of(location));
        default -> throw check.explained(location, new NoSuchFileException(how));
      }
      return null;
    } catch (IOException error) {
      return error.getMessage();
    }
  }

  private static LocationRef location(JsonNode from) {
    return new LocationRef(
        from.get(0).textValue(),
        from.get(1).textValue(),
        from.get(2).textValue(),
        from.get(3).textValue(),
        from.get(4).longValue(),
        from.get(5).longValue(),
        from.get(6).longValue(),
        from.get(7).longValue());
  }

  /** As Spark sends it to a task. */
  private static SnapshotCheck sent(SnapshotCheck check) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(check);
    }
    return (SnapshotCheck) new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray())).readObject();
  }
}
