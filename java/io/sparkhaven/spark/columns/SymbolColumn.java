package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Numbers of symbols in a {@code .dat} file, i4 a row, as the texts of a dictionary. */
final class SymbolColumn extends LocationColumn {
  private final CommittedFile file;
  private final Symbols vector;

  SymbolColumn(CommittedFile file, Dictionary dictionary, int rows) {
    this.file = file;
    this.vector = new Symbols(dictionary, new byte[4 * rows]);
  }

  @Override
  public ColumnVector vector() {
    return vector;
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(4 * first, ByteBuffer.wrap(vector.data, 0, 4 * rows));
    int outside = vector.settle(rows);
    if (outside >= 0) {
      throw ReadFailure.damaged(
          "row has a symbol that is not in the table",
          file.path() + ", row " + (first + outside),
          "0 to " + (vector.texts.length - 1) + ", or null",
          vector.number(outside));
    }
  }

  @Override
  public void close() throws IOException {
    file.close();
  }

  private static final class Symbols extends PlainVector {
    private final byte[] data;
    private final UTF8String[] texts;
    private final boolean nullTexts;
    private boolean nulls;

    Symbols(Dictionary dictionary, byte[] data) {
      super(DataTypes.StringType);
      this.data = data;
      this.texts = dictionary.texts();
      this.nullTexts = dictionary.hasNull();
    }

    int number(int row) {
      return Platform.getInt(data, Platform.BYTE_ARRAY_OFFSET + 4L * row);
    }

    /** Looks at a new batch: the first row whose number is none of a symbol, and not null; -1: there is none. */
    int settle(int rows) {
      boolean missing = false;
      for (int row = 0; row < rows; row++) {
        int number = number(row);
        if (number < 0 || number >= texts.length) {
          if (number != Integer.MIN_VALUE) {
            return row;
          }
          missing = true;
        }
      }
      nulls = missing || nullTexts;
      return -1;
    }

    @Override
    public boolean hasNull() {
      return nulls;
    }

    @Override
    public boolean isNullAt(int row) {
      if (!nulls) {
        return false;
      }
      int number = number(row);
      return number == Integer.MIN_VALUE || texts[number] == null;
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return texts[number(row)];
    }
  }
}
