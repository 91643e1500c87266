package io.sparkhaven.spark.snapshot;

import io.sparkhaven.spark.files.FileIdentity;
import java.io.Serializable;
import java.util.List;

/**
 * A stream at its pinned epoch, and up to where its records are known: what the log and the removals were to the system
 * (null: not there), where the last record of the log begins and its eight bytes there in hexadecimal, and the place
 * after the last removal. {@code restored}: the older epoch that a rollback has gone back to since, or null.
 */
record PinnedStream(
    String stream, String log, String checkpoint, String removals, long epoch, FileIdentity logSeen,
    FileIdentity removalsSeen, long last, String mark, long removalsEnd, Long restored,
    List<RemovalsFile.Removal> removed)
    implements Serializable {}
