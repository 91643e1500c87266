package io.sparkhaven.spark.plan;

import java.io.Serializable;

/**
 * The committed files of one column in one location. It goes with a task.
 *
 * @param name the name that the files have
 * @param states of the files by {@link ColumnForm#suffixes}, {@code .dat} first; null: not committed
 * @param form number of the form that the names of the files tell; the begin of the {@code .dat} file may tell an
 *     earlier one
 * @param nulls whether a row of the slice can be null
 */
public record ColumnFiles(String name, FileState[] states, int form, boolean nulls) implements Serializable {
  /** Without a committed {@code .dat} file all rows are null. */
  public boolean absent() {
    return states.length == 0 || states[0] == null;
  }

  /** Committed bytes of all files. */
  public long size() {
    long size = 0;
    for (FileState state : states) {
      size += state == null ? 0 : state.size();
    }
    return size;
  }
}
