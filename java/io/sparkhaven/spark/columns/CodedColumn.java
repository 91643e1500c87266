package io.sparkhaven.spark.columns;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Values of one width in a {@code .dat} file, as a codec wrote them. */
final class CodedColumn extends LocationColumn {
  private final CommittedFile file;
  private final int width;
  private final CodedValues values;
  private final byte[] data;

  CodedColumn(CommittedFile file, int width, CodedValues values, int rows) {
    this.file = file;
    this.width = width;
    this.values = values;
    data = new byte[Math.multiplyExact(width, rows)];
  }

  @Override
  public ColumnVector vector() {
    return values.vector;
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(first * width, ByteBuffer.wrap(data, 0, rows * width));
    values.clear();
    for (int row = 0; row < rows; row++) {
      values.put(data, row * width, width, row, first + row);
    }
  }

  @Override
  public void close() throws IOException {
    file.close();
  }
}
