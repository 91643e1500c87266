package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.codings.InstantForm;
import io.sparkhaven.spark.files.CommittedFile;
import io.sparkhaven.spark.plan.ColumnForm;
import io.sparkhaven.spark.plan.PlannedColumn;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;

/** Values of one width in a {@code .dat} file: plain ones, or as a codec wrote them. */
final class FixedColumn extends LocationColumn {
  private final CommittedFile file;
  private final int width;
  private final PlainValues plain;
  private final CodedValues coded; // null: they are plain
  private final boolean nulls;
  private final byte[] data;
  private final OnHeapColumnVector vector;

  /**
   * A column.
   *
   * @param nulls whether a plain value may be null
   * @param vector with room for {@code rows}, the most of a batch
   */
  FixedColumn(
      CommittedFile file,
      ColumnForm form,
      PlannedColumn column,
      boolean nulls,
      OnHeapColumnVector vector,
      int rows) {
    super(vector, file);
    this.vector = vector;
    this.file = file;
    this.width = form.width();
    this.plain = new PlainValues(form, column.type(), new InstantForm(column.instant(), column.name()));
    this.coded = CodedValues.of(form, column.name(), file.path());
    this.nulls = nulls;
    this.data = new byte[Math.multiplyExact(width, rows)];
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(first * width, ByteBuffer.wrap(data, 0, rows * width));
    vector.reset();
    if (coded == null) {
      plain.put(data, rows, nulls, vector);
      return;
    }
    for (int row = 0; row < rows; row++) {
      coded.put(data, row * width, width, vector, row, first + row);
    }
  }
}
