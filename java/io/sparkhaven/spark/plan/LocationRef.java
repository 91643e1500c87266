package io.sparkhaven.spark.plan;

import java.io.Serializable;

/**
 * The location of a slice, as its snapshot knows it.
 *
 * @param stream the stream that writes it; null: history
 * @param internal internal partition
 * @param value value of the partitioning column
 * @param directory path of its files
 * @param rows committed rows
 * @param since epoch that made it; 0 of history
 * @param made when that was (ms since 1970); 0: not known, or of history
 * @param epoch epoch that changed it last; 0 of history
 */
public record LocationRef(
    String stream, String internal, String value, String directory, long rows, long since, long made, long epoch)
    implements Serializable {
  /** The same location, whose files are in another directory now. */
  public LocationRef at(String other) {
    return new LocationRef(stream, internal, value, other, rows, since, made, epoch);
  }
}
