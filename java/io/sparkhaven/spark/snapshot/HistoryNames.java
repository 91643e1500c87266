package io.sparkhaven.spark.snapshot;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.FileIdentity;
import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.plan.Plan;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Why a location of history is not there: a newer merge of its date has replaced it, or its volume is not mounted.
 * {@code merges}: directory of the merge records of the table, as {@code store/merges/merge_records.py} writes them.
 */
record HistoryNames(String merges) implements Serializable {
  private static final String MAGIC = "SHVMRG3\n";
  private static final String RECORD = ".json";
  private static final Set<String> COMPLETE = Set.of("record", "clean");

  /** ReadFailure: the newest merge of the date still has that location, and its volume is not mounted. */
  void requireVolume(LocationRef location) throws IOException {
    Path partition = Path.of(location.directory()).getParent().getParent();
    if (!Files.isSymbolicLink(partition) || !isEmpty(partition) || !isNamed(location)) {
      return; // a directory that is no link lies on the volume of the root
    }
    Path target = partition.getParent().resolve(Files.readSymbolicLink(partition)).normalize();
    throw ReadFailure.of("RetryableStorageError",
        "the volume of storage partition " + partition.getFileName() + " is not mounted",
        partition + " -> " + target,
        "the directory with the merged dates",
        FileIdentity.of(target) == null ? "a broken link" : "an empty directory on the volume of the root",
        "mount the volume and run it again. Nothing was lost or changed. If its dates were removed by hand, "
            + "remove the link");
  }

  private boolean isNamed(LocationRef location) throws IOException {
    List<Path> records;
    try (Stream<Path> files = Files.list(Path.of(merges, location.value()))) {
      records = files.filter(path -> generation(path) >= 0)
          .sorted(Comparator.comparingLong(HistoryNames::generation).reversed()).toList();
    } catch (NoSuchFileException error) {
      return false;
    }
    for (Path path : records) {
      JsonNode record = record(path);
      if (COMPLETE.contains(record.path("phase").asText())) {
        for (JsonNode output : record.path("outputs")) {
          if (output.path("internal").asText().equals(location.internal())) {
            return true;
          }
        }
        return false;
      }
    }
    return false;
  }

  private static JsonNode record(Path path) throws IOException {
    try (FrameFile file = new FrameFile(path)) {
      file.header(MAGIC);
      FrameFile.Frame frame = file.frame(FrameFile.FILE_HEADER);
      if (frame == null || frame.end() != file.size()) {
        throw damaged(path, "other bytes");
      }
      return Plan.JSON.readTree(frame.text());
    } catch (JsonProcessingException error) {
      throw damaged(path, error.toString());
    }
  }

  private static ReadFailure damaged(Path path, String present) {
    return ReadFailure.of("CorruptFileError", "merge record is cut short or damaged", path + " at byte " + FrameFile.FILE_HEADER,
        "one frame whose checksum holds, to the end of the file", present,
        "run `sparkhaven inspect " + path + "` and restore it from a copy. No other file has its content");
  }

  private static long generation(Path path) {
    String name = path.getFileName().toString();
    String digits = name.endsWith(RECORD) ? name.substring(0, name.length() - RECORD.length()) : "";
    return digits.matches("\\d{1,18}") ? Long.parseLong(digits) : -1;
  }

  private static boolean isEmpty(Path directory) throws IOException {
    try (Stream<Path> names = Files.list(directory)) {
      return names.findAny().isEmpty();
    } catch (NoSuchFileException | NotDirectoryException error) {
      return true;
    }
  }
}
