package io.sparkhaven.spark.snapshot;

import com.fasterxml.jackson.databind.JsonNode;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.FileIdentity;
import io.sparkhaven.spark.plan.LocationRef;
import io.sparkhaven.spark.plan.Plan;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Whether files that a task has opened are still those of the snapshot. Commits only append; a rollback and a removal
 * replace rows, and both are recorded before the first file changes. So a task opens files first and then looks at the
 * records: if they show nothing, what it has opened is good whatever happens later.
 */
public final class SnapshotCheck implements Serializable {
  private static final long serialVersionUID = 1;
  private static final String AGAIN = "open the table again";
  private static final String DOOMED = ".doomed-"; // of a directory that was moved away and not yet unlinked
  private static final String TABLE_SIZE = "table.size";

  private final HashMap<String, PinnedStream> streams = new HashMap<>();
  private final HistoryNames history;

  /** What Python writes of the streams of a snapshot; {@code merges}: see {@link HistoryNames}. */
  record Pins(String merges, List<PinnedStream> streams) {}

  private SnapshotCheck(Pins pins) {
    history = new HistoryNames(pins.merges());
    pins.streams().forEach(stream -> streams.put(stream.stream(), stream));
  }

  /** From what {@code readers/spark/jvm/plan_file.py} writes. IllegalArgumentException: a part is missing. */
  public static SnapshotCheck of(JsonNode pinned) {
    return new SnapshotCheck(Plan.JSON.convertValue(pinned, Pins.class));
  }

  /** ReadFailure: files of these locations, opened before this call, may not be those of the snapshot. */
  public void require(Collection<LocationRef> opened) throws IOException {
    require(opened, true);
  }

  /** The same for rows that are counted without their files: rows that were removed with proof still count. */
  public void requireCounted(Collection<LocationRef> counted) throws IOException {
    require(counted, false);
  }

  /**
   * Why files of a location could not be read: ReadFailure where they are no longer those of the snapshot, with
   * {@code error} as its cause; else {@code error}.
   */
  public IOException explained(LocationRef location, IOException error) {
    if (error instanceof ReadFailure failure && failure.kind().equals("SnapshotMovedError")) {
      return error;
    }
    try {
      require(List.of(location));
      boolean unreadable = error instanceof NoSuchFileException || error instanceof ReadFailure;
      if (unreadable && FileIdentity.of(Path.of(location.directory())) == null) {
        if (location.stream() == null) {
          history.requireVolume(location);
        }
        throw left(location);
      }
    } catch (IOException better) {
      if (better.getCause() == null) {
        better.initCause(error);
      }
      return better;
    }
    return error;
  }

  /**
   * Where the files of a location are that was removed since; null if they are in place, or gone. They are as they were
   * pinned, and need no further check.
   *
   * @throws ReadFailure they were rolled back before
   */
  public LocationRef aside(LocationRef location) throws IOException {
    if (location.stream() == null) {
      return null;
    }
    WatchedStream stream = WatchedStream.of(streams.get(location.stream()));
    stream.look();
    requireLive(location, stream);
    RemovalsFile.Removal removal = stream.removal(location);
    Path directory = Path.of(location.directory());
    Path aside = directory.resolveSibling(DOOMED + directory.getFileName() + "-" + location.since());
    boolean moved = removal != null && removal.deleted() && FileIdentity.of(aside) != null;
    return moved ? location.at(aside.toString()) : null;
  }

  private void require(Collection<LocationRef> locations, boolean files) throws IOException {
    Map<String, WatchedStream> looked = new HashMap<>();
    for (LocationRef location : locations) {
      if (location.stream() != null && !looked.containsKey(location.stream())) {
        WatchedStream stream = WatchedStream.of(streams.get(location.stream()));
        stream.look();
        looked.put(location.stream(), stream);
      }
    }
    for (LocationRef location : locations) {
      if (location.stream() != null) {
        require(location, looked.get(location.stream()), files);
      }
    }
  }

  private static void require(LocationRef location, WatchedStream stream, boolean files) throws IOException {
    requireLive(location, stream);
    RemovalsFile.Removal removal = files ? stream.removal(location) : null;
    if (removal == null) {
      return;
    }
    if (!removal.deleted() && FileIdentity.of(Path.of(location.directory(), TABLE_SIZE)) != null) {
      // Readers may use it until a delete moves the directory away and then records that. Only a commit after the
      // record publishes a new one: if table.size exists and no delete is recorded after this check, the directory is
      // the old one.
      stream.look();
      if (!stream.removal(location).deleted()) {
        return;
      }
    }
    throw left(location);
  }

  private static void requireLive(LocationRef location, WatchedStream stream) throws ReadFailure {
    Long restored = stream.restored();
    if (restored != null && location.rows() > 0 && location.epoch() > restored) {
      throw ReadFailure.moved(
          "the pinned epoch has been rolled back",
          location.directory(),
          "%d rows of epoch %d, stream '%s'".formatted(location.rows(), location.epoch(), location.stream()),
          "a rollback to epoch " + restored,
          AGAIN);
    }
  }

  private static ReadFailure left(LocationRef location) {
    boolean ofHistory = location.stream() == null;
    return ReadFailure.moved(
        ofHistory
            ? "history of the date was changed since the table was opened, and its files of then are gone"
            : "rows of this snapshot were merged and deleted from intraday since it was opened",
        location.directory(),
        location.rows() + " rows",
        ofHistory ? "its locations were removed" : "another directory, or none",
        AGAIN);
  }
}
