package io.sparkhaven.spark.snapshot;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.FileIdentity;
import io.sparkhaven.spark.plan.Plan;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The rollbacks in the commit log of a stream, and in the checkpoint that the log continues. Formats:
 * {@code store/epochs/state/log_records.py}, {@code store/epochs/files/checkpoint.py}.
 */
final class CommitLog {
  private static final String LOG_MAGIC = "SHVLOG2\n";
  private static final String CHECKPOINT_MAGIC = "SHVCKP3\n";
  private static final byte[] ROLLBACK = "\"kind\":\"rollback\"".getBytes(StandardCharsets.US_ASCII);
  private static final int ATTEMPTS = 20;

  /** A rollback to epoch {@code to}, which is itself epoch {@code epoch}: the epochs between the two are no more. */
  record Rollback(long to, long epoch) {
    boolean covers(long pinned) {
      return to < pinned && pinned < epoch;
    }
  }

  /** Rollbacks, and where the last record of the log begins, with the eight bytes there (none in an empty log). */
  record Content(List<Rollback> rollbacks, long last, byte[] mark) {}

  private record Checkpoint(long epoch, List<Rollback> rollbacks) {}

  private final Path log;
  private final Path checkpoint;

  CommitLog(Path log, Path checkpoint) {
    this.log = log;
    this.checkpoint = checkpoint;
  }

  /** Rollbacks after the record at {@code last}, which begins with {@code mark}; null where the log has another. */
  Content appended(long last, byte[] mark) throws IOException, ReadFailure {
    if (mark.length == 0) {
      return null;
    }
    try (FrameFile file = new FrameFile(log)) {
      FrameFile.Frame pinned = file.frame(last);
      if (pinned == null || !Arrays.equals(file.read(last, FrameFile.HEADER), mark)) {
        return null;
      }
      return from(file, pinned);
    } catch (NoSuchFileException error) {
      return null;
    }
  }

  /** All rollbacks of log and checkpoint. ReadFailure: there is no log, or one of both is damaged. */
  Content whole() throws IOException, ReadFailure {
    long base = 0;
    long epoch = 0;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
      Checkpoint saved = checkpoint();
      epoch = saved.epoch();
      try (FrameFile file = new FrameFile(log)) {
        base = file.header(LOG_MAGIC).number();
        if (base <= epoch) {
          Content logged = from(file, null);
          logged.rollbacks().addAll(saved.rollbacks());
          return logged;
        }
      } catch (NoSuchFileException error) {
        throw ReadFailure.of("TableNotFoundError", "stream has no commit log", log.toString(), "a log",
            FileIdentity.of(checkpoint) == null ? "nothing" : "checkpoint only",
            "`sparkhaven stats` lists the streams of a table");
      }
    }
    throw ReadFailure.of("CorruptFileError", "the checkpoint that the commit log continues from is missing",
        checkpoint.toString(), "epoch " + base + " or newer", "epoch " + epoch,
        "restore the checkpoint from a copy. Nothing was changed or deleted");
  }

  /** Rollbacks of the records after {@code pinned} (null: of all), oldest first. */
  private Content from(FrameFile file, FrameFile.Frame pinned) throws IOException, ReadFailure {
    List<Rollback> rollbacks = new ArrayList<>();
    FrameFile.Frame last = pinned;
    long end = pinned == null ? FrameFile.FILE_HEADER : pinned.end();
    for (FrameFile.Frame frame = file.frame(end); frame != null; frame = file.frame(end)) {
      if (isRollback(frame)) {
        read(frame, rollbacks);
      }
      last = frame;
      end = frame.end();
    }
    file.refuseDamage(end);
    return last == null
        ? new Content(rollbacks, FrameFile.FILE_HEADER, new byte[0])
        : new Content(rollbacks, last.offset(), file.read(last.offset(), FrameFile.HEADER));
  }

  private static boolean isRollback(FrameFile.Frame frame) {
    byte[] payload = frame.payload();
    int stop = frame.textLength() - ROLLBACK.length;
    for (int index = 0; index <= stop; index++) {
      if (payload[index] == ROLLBACK[0]
          && Arrays.equals(payload, index, index + ROLLBACK.length, ROLLBACK, 0, ROLLBACK.length)) {
        return true;
      }
    }
    return false;
  }

  private void read(FrameFile.Frame frame, List<Rollback> into) throws ReadFailure {
    try {
      JsonNode record = Plan.JSON.readTree(frame.text());
      if (record.required("kind").asText().equals("rollback")) {
        into.add(new Rollback(record.required("to").asLong(), record.required("epoch").asLong()));
      }
    } catch (JsonProcessingException | IllegalArgumentException error) {
      throw ReadFailure.damaged("rollback record is incomplete", log + " at byte " + frame.offset(),
          "all of its keys", error.toString());
    }
  }

  private Checkpoint checkpoint() throws IOException, ReadFailure {
    try (FrameFile file = new FrameFile(checkpoint)) {
      FrameFile.Header header = file.header(CHECKPOINT_MAGIC);
      FrameFile.Frame first = file.frame(FrameFile.FILE_HEADER);
      if (first == null) {
        throw damagedCheckpoint("damage");
      }
      List<Rollback> rollbacks = new ArrayList<>();
      for (JsonNode pair : Plan.JSON.readTree(first.text()).path("rolledBack")) {
        rollbacks.add(new Rollback(pair.required(0).asLong(), pair.required(1).asLong()));
      }
      return new Checkpoint(header.number(), rollbacks);
    } catch (NoSuchFileException error) {
      return new Checkpoint(0, List.of());
    } catch (JsonProcessingException | IllegalArgumentException error) {
      throw damagedCheckpoint(error.toString());
    }
  }

  private ReadFailure damagedCheckpoint(String present) {
    return ReadFailure.of("CorruptFileError", "checkpoint is damaged", checkpoint + " at byte " + FrameFile.FILE_HEADER,
        "all keys of a checkpoint", present,
        "restore it from a copy. The log begins where it ends and cannot replace it");
  }
}
