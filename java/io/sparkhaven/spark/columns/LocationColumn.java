package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.pushdown.ColumnCondition;
import java.io.Closeable;
import java.io.IOException;
import org.apache.spark.sql.vectorized.ColumnVector;

/** One column of one location, batch by batch. */
public abstract class LocationColumn implements Closeable {
  /** Most rows of a batch. */
  public static final int MOST_ROWS = 4096;

  private final ColumnVector vector;
  private final Closeable files;

  /**
   * A column.
   *
   * @param vector what {@link #move} fills
   * @param files what is closed with the column; null: nothing
   */
  protected LocationColumn(ColumnVector vector, Closeable files) {
    this.vector = vector;
    this.files = files;
  }

  /** The values of the batch that {@link #move} chose last; the same object for all batches of the location. */
  public final ColumnVector vector() {
    return vector;
  }

  /**
   * Shows rows [first, first + rows) of the location, at most {@link #MOST_ROWS}.
   *
   * @throws IOException a file is shorter than what was committed, or a value is damaged or has no form in Spark
   */
  public abstract void move(long first, int rows) throws IOException;

  /** How many of the rows [first, first + rows) fit into memory at once; at least one. */
  public int room(long first, int rows) throws IOException {
    return rows;
  }

  /**
   * Says what rows must be for which {@link #mayMatch} is true, beside what was said before.
   *
   * @return false: no row of the location is so
   */
  public boolean narrow(ColumnCondition condition) {
    return true;
  }

  /** Whether one of the rows that were moved to may be as {@link #narrow} said; so it may where that does not look. */
  public boolean mayMatch(int rows) {
    return true;
  }

  @Override
  public final void close() throws IOException {
    if (files != null) {
      files.close();
    }
  }
}
