package io.sparkhaven.spark.columns;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Entries of fixed width in a {@code .dat} file. */
final class FixedColumn extends LocationColumn {
  private final CommittedFile file;
  private final int width;
  private final EntryVector vector;

  FixedColumn(CommittedFile file, int width, EntryVector vector) {
    this.file = file;
    this.width = width;
    this.vector = vector;
  }

  @Override
  public ColumnVector vector() {
    return vector;
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(first * width, ByteBuffer.wrap(vector.data, 0, rows * width));
    vector.settle(first, rows);
  }

  @Override
  public void close() throws IOException {
    file.close();
  }
}
