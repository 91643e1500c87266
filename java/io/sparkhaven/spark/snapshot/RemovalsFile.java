package io.sparkhaven.spark.snapshot;

import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.plan.Plan;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The removals of a stream, as {@code store/epochs/files/removals.py} documents them. */
final class RemovalsFile {
  private static final String MAGIC = "SHVREM2\n";
  private static final String FOLDED = "{\"folded\":{";
  private static final int FOLDED_BYTES = 61;

  /**
   * One location of a stream that was truncated or deleted.
   *
   * @param since the epoch that made it
   * @param made when that was (ms), 0 where it is not known
   * @param phase truncate or delete
   */
  @JsonFormat(shape = JsonFormat.Shape.ARRAY)
  record Removal(String internal, String value, long since, long made, String phase) implements Serializable {
    private static final String DELETE = "delete";
    private static final String TRUNCATE = "truncate";

    Removal {
      if (!phase.equals(DELETE) && !phase.equals(TRUNCATE)) {
        throw new IllegalArgumentException("phase " + phase);
      }
    }

    boolean deleted() {
      return phase.equals(DELETE);
    }

    /** Whether it is this location, not one that was created again under its name. */
    boolean means(LocationRef location) {
      return since == location.since() && internal.equals(location.internal()) && value.equals(location.value())
          && (made == location.made() || made == 0 || location.made() == 0);
    }
  }

  /** Removals that were read, in their order, and the place of the next one (0: there is no file yet). */
  record Content(List<Removal> removals, long end) {}

  private RemovalsFile() {}

  /**
   * Removals from a place on (0: all); earlier ones are read where they are folded with them. A torn tail is ignored.
   * ReadFailure: damage before the tail, or the file ends before {@code start}.
   */
  static Content read(Path path, long start) throws IOException, ReadFailure {
    try (FrameFile file = new FrameFile(path)) {
      FrameFile.Header header = file.size() == 0 ? null : headerOf(file, path);
      if (header != null) {
        return read(file, header.place(), start, path);
      }
    } catch (NoSuchFileException error) {
      // as an empty file
    }
    requireReached(path, 0, start);
    return new Content(List.of(), 0);
  }

  /** Null where a power failure came while the header was written. */
  private static FrameFile.Header headerOf(FrameFile file, Path path) throws IOException, ReadFailure {
    try {
      FrameFile.Header header = file.header(MAGIC);
      if (!header.holdsPlace()) {
        throw damaged("the header of the removals is damaged", path, "a number with its checksum",
            "0x" + Long.toHexString(header.number()));
      }
      return header;
    } catch (ReadFailure failure) {
      if (!failure.kind().equals("CorruptFileError") || file.frame(FrameFile.FILE_HEADER) != null) {
        throw failure;
      }
      return null;
    }
  }

  private static Content read(FrameFile file, long base, long start, Path path) throws IOException, ReadFailure {
    requireReached(path, base + file.size(), start);
    FrameFile.Frame first = file.frame(FrameFile.FILE_HEADER);
    long offset = Math.max(start - base, FrameFile.FILE_HEADER);
    if (first != null && first.text().startsWith(FOLDED) && offset < first.end()) {
      offset = FrameFile.FILE_HEADER;
    }
    List<Removal> removals = new ArrayList<>();
    for (FrameFile.Frame frame = file.frame(offset); frame != null; frame = file.frame(offset)) {
      decode(frame, path, removals);
      offset = frame.end();
    }
    file.refuseDamage(offset);
    return new Content(removals, base + offset);
  }

  private static void requireReached(Path path, long size, long start) throws ReadFailure {
    if (size < start) {
      throw damaged("removals that the stream has applied are missing", path, start + " bytes or more",
          size + " bytes");
    }
  }

  private static void decode(FrameFile.Frame frame, Path path, List<Removal> into) throws ReadFailure {
    String where = path + " at byte " + frame.offset();
    try {
      JsonNode value = Plan.JSON.readTree(frame.text());
      if (frame.text().startsWith(FOLDED)) {
        folded(value.required("folded"), frame, into);
        return;
      }
      for (JsonNode entry : value.has("group") ? value.get("group") : List.of(value)) {
        into.add(removal(entry));
      }
    } catch (JsonProcessingException | IllegalArgumentException | IndexOutOfBoundsException error) {
      throw ReadFailure.damaged("removal record is incomplete", where, "all of its keys", error.toString());
    }
  }

  private static Removal removal(JsonNode entry) {
    JsonNode key = entry.required("at");
    return new Removal(key.required(0).asText(), key.required(1).asText(), entry.required("since").asLong(),
        entry.path("made").asLong(), entry.required("phase").asText());
  }

  /** Entries of 61 bytes: places of internal partition and value, since, rows, made, and so on; the phase is last. */
  private static void folded(JsonNode first, FrameFile.Frame frame, List<Removal> into) {
    int begin = frame.textLength() + 1;
    ByteBuffer entries = ByteBuffer.wrap(frame.payload()).order(ByteOrder.LITTLE_ENDIAN);
    int count = first.required("count").asInt();
    if (frame.payload().length - begin != (long) count * FOLDED_BYTES) {
      throw new IllegalArgumentException((frame.payload().length - begin) + " bytes of " + count + " removals");
    }
    for (int entry = begin; entry < frame.payload().length; entry += FOLDED_BYTES) {
      String internal = first.required("internals").required(entries.getInt(entry)).asText();
      String value = first.required("values").required(entries.getInt(entry + 4)).asText();
      into.add(new Removal(internal, value, entries.getLong(entry + 8), entries.getLong(entry + 24),
          entries.get(entry + FOLDED_BYTES - 1) == 1 ? Removal.DELETE : Removal.TRUNCATE));
    }
  }

  private static ReadFailure damaged(String what, Path path, String expected, String present) {
    return ReadFailure.of("CorruptFileError", what, path.toString(), expected, present,
        "restore log, checkpoint and removals from one copy. Nothing was changed or deleted");
  }
}
