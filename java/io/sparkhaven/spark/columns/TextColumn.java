package io.sparkhaven.spark.columns;

import java.io.IOException;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Texts of their own: i8 end of each row's value in {@code .dat}, the values in {@code .bytes}. */
final class TextColumn extends LocationColumn {
  private final ValueRanges ranges;
  private final TextCharset charset;
  private final Texts vector;

  TextColumn(ValueRanges ranges, TextCharset charset) {
    this.ranges = ranges;
    this.charset = charset;
    this.vector = new Texts(ranges.ends());
  }

  @Override
  public ColumnVector vector() {
    return vector;
  }

  @Override
  public int room(long first, int rows) throws IOException {
    return ranges.room(first, rows);
  }

  @Override
  public void move(long first, int rows) throws IOException {
    byte[] data = ranges.move(first, rows);
    boolean plain = charset.isPlain(data, 0, ranges.length());
    vector.data = data;
    vector.decoded = null;
    if (!plain) {
      UTF8String[] decoded = new UTF8String[rows];
      for (int row = 0; row < rows; row++) {
        decoded[row] =
            charset.text(data, ranges.from(row), ranges.to(row), false, new Row(ranges, first + row));
      }
      vector.decoded = decoded;
    }
  }

  @Override
  public void close() throws IOException {
    ranges.close();
  }

  private record Row(ValueRanges ranges, long number) {
    @Override
    public String toString() {
      return ranges.path() + ", row " + number;
    }
  }

  private static final class Texts extends PlainVector {
    private final int[] ends;
    private byte[] data;
    private UTF8String[] decoded; // null: the bytes are the texts

    Texts(int[] ends) {
      super(DataTypes.StringType);
      this.ends = ends;
    }

    @Override
    public boolean isNullAt(int row) {
      return ends[row] == ends[row + 1];
    }

    @Override
    public UTF8String getUTF8String(int row) {
      if (decoded != null) {
        return decoded[row];
      }
      int from = ends[row];
      int length = ends[row + 1] - from;
      if (length == 1 && Platform.getByte(data, Platform.BYTE_ARRAY_OFFSET + from) == 0) {
        return UTF8String.EMPTY_UTF8;
      }
      return UTF8String.fromBytes(data, from, length);
    }
  }
}
