package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.plan.ColumnForm;
import io.sparkhaven.spark.plan.PlannedColumn;
import java.io.IOException;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;

/** Values of any length: texts, or as a codec wrote them. No bytes are null. */
final class BlobColumn extends LocationColumn {
  private final ValueRanges ranges;
  private final TextCharset charset;
  private final CodedValues coded; // null: they are texts
  private final OnHeapColumnVector vector = (OnHeapColumnVector) vector();

  BlobColumn(ValueRanges ranges, ColumnForm form, PlannedColumn column, int rows) {
    super(new OnHeapColumnVector(rows, column.type()), ranges);
    this.ranges = ranges;
    this.coded = CodedValues.of(form, column.name(), ranges.path());
    this.charset = coded == null ? new TextCharset(form.charset()) : null;
  }

  @Override
  public int room(long first, int rows) throws IOException {
    return ranges.room(first, rows);
  }

  @Override
  public void move(long first, int rows) throws IOException {
    byte[] data = ranges.move(first, rows);
    vector.reset();
    if (coded == null && charset.isPlain(data, 0, ranges.length())) {
      charset.putPlain(data, ranges.ends(), rows, vector);
      return;
    }
    for (int row = 0; row < rows; row++) {
      int from = ranges.from(row);
      int length = ranges.to(row) - from;
      if (length == 0) {
        vector.putNull(row);
      } else if (coded != null) {
        coded.put(data, from, length, vector, row, first + row);
      } else {
        vector.putByteArray(row, charset.text(data, from, from + length, ranges.path() + ", row " + (first + row)));
      }
    }
  }
}
