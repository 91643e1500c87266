package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.codings.RefusedValue;
import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import org.apache.spark.sql.vectorized.ColumnVector;

/** One column of a {@code table.parquet}; all of a location share its rows. */
final class ParquetColumn extends LocationColumn {
  private final ParquetRows rows;
  private final String column;
  private final ShiftedVector vector;

  ParquetColumn(ParquetRows rows, String column, ShiftedVector vector) {
    this.rows = rows;
    this.column = column;
    this.vector = vector;
  }

  @Override
  public ColumnVector vector() {
    return vector;
  }

  @Override
  public int room(long first, int count) throws IOException {
    rows.seek(first);
    return Math.min(count, rows.left(first));
  }

  @Override
  public void move(long first, int count) throws IOException {
    rows.seek(first);
    vector.shift = rows.position(first);
    if (vector instanceof ConvertedVector converted) {
      try {
        converted.require(vector.shift, vector.shift + count);
      } catch (RefusedValue refused) {
        throw ReadFailure.mismatch(
            refused.getMessage(), "column " + column, refused.expected, refused.value, refused.hint);
      }
    }
  }

  @Override
  public void close() throws IOException {
    rows.close();
  }
}
