package io.sparkhaven.spark.snapshot;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.FileIdentity;
import io.sparkhaven.spark.files.RecentMap;
import io.sparkhaven.spark.plan.LocationRef;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * What has become of a pinned stream: rollbacks and removals that were recorded since. All tasks of a process share it,
 * so each record is read once. A look costs two calls of the system where nothing was recorded.
 */
final class WatchedStream {
  private static final int MOST = 64;
  private static final String LOG = ".log";
  private static final String NOTE = ".removed";
  private static final Map<PinnedStream, WatchedStream> WATCHED = new RecentMap<>(MOST);

  private record Key(String internal, String value) {}

  private final PinnedStream pinned;
  private final CommitLog log;
  private final Path logPath;
  private final Path removalsPath;
  private final Path notePath;
  private final Map<Key, List<RemovalsFile.Removal>> removed = new HashMap<>();
  private FileIdentity logSeen;
  private FileIdentity removalsSeen;
  private long last;
  private byte[] mark;
  private long removalsEnd;
  private Long restored;
  private boolean ended;

  private WatchedStream(PinnedStream pinned) {
    this.pinned = pinned;
    logPath = Path.of(pinned.log());
    removalsPath = Path.of(pinned.removals());
    notePath = Path.of(pinned.log().substring(0, pinned.log().length() - LOG.length()) + NOTE);
    log = new CommitLog(logPath, Path.of(pinned.checkpoint()));
    logSeen = pinned.logSeen();
    removalsSeen = pinned.removalsSeen();
    last = pinned.last();
    mark = HexFormat.of().parseHex(pinned.mark());
    removalsEnd = pinned.removalsEnd();
    restored = pinned.restored();
    pinned.removed().forEach(this::note);
  }

  static WatchedStream of(PinnedStream pinned) {
    synchronized (WATCHED) {
      return WATCHED.computeIfAbsent(pinned, WatchedStream::new);
    }
  }

  /** Reads what was recorded since the last look. ReadFailure: log, checkpoint or removals are damaged or gone. */
  synchronized void look() throws IOException, ReadFailure {
    FileIdentity now = FileIdentity.of(logPath);
    if (now == null && FileIdentity.of(notePath) != null) { // with proof, after all of its locations
      ended = true;
      logSeen = null;
      return;
    }
    if (now == null || !now.equals(logSeen)) {
      CommitLog.Content appended = now == null ? null : log.appended(last, mark);
      CommitLog.Content content = appended == null ? log.whole() : appended;
      for (CommitLog.Rollback rollback : content.rollbacks()) {
        if (rollback.covers(pinned.epoch()) && (restored == null || rollback.to() < restored)) {
          restored = rollback.to();
        }
      }
      last = content.last();
      mark = content.mark();
      logSeen = now;
    }
    if (restored != null && restored == 0) { // no row of it is left. A removed stream may be followed by another one
      return;
    }
    FileIdentity removals = FileIdentity.of(removalsPath);
    if (removals != null && !removals.equals(removalsSeen)) {
      RemovalsFile.Content content = RemovalsFile.read(removalsPath, removalsEnd);
      content.removals().forEach(this::note);
      removalsEnd = Math.max(removalsEnd, content.end());
      removalsSeen = removals;
    }
  }

  /** The older epoch that a rollback has gone back to since, or null. */
  synchronized Long restored() {
    return restored;
  }

  /** The last removal of a location of the snapshot; null where it was not removed. */
  synchronized RemovalsFile.Removal removal(LocationRef location) {
    if (ended) {
      return new RemovalsFile.Removal(location.internal(), location.value(), location.since(), location.made(), "delete");
    }
    RemovalsFile.Removal newest = null;
    for (RemovalsFile.Removal removal : removed.getOrDefault(new Key(location.internal(), location.value()), List.of())) {
      newest = removal.means(location) ? removal : newest;
    }
    return newest;
  }

  private void note(RemovalsFile.Removal removal) {
    Key key = new Key(removal.internal(), removal.value());
    removed.computeIfAbsent(key, ignored -> new ArrayList<>()).add(removal);
  }
}
