package io.sparkhaven.spark.columns;

import java.io.IOException;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Values of any length, as a codec wrote them; no bytes are null. */
final class CodedBlobColumn extends LocationColumn {
  private final ValueRanges ranges;
  private final CodedValues values;

  CodedBlobColumn(ValueRanges ranges, CodedValues values) {
    this.ranges = ranges;
    this.values = values;
  }

  @Override
  public ColumnVector vector() {
    return values.vector;
  }

  @Override
  public int room(long first, int rows) throws IOException {
    return ranges.room(first, rows);
  }

  @Override
  public void move(long first, int rows) throws IOException {
    byte[] data = ranges.move(first, rows);
    values.clear();
    for (int row = 0; row < rows; row++) {
      int from = ranges.from(row);
      int length = ranges.to(row) - from;
      if (length == 0) {
        values.putNull(row);
      } else {
        values.put(data, from, length, row, first + row);
      }
    }
  }

  @Override
  public void close() throws IOException {
    ranges.close();
  }
}
