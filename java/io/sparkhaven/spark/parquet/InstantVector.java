package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.codings.InstantForm;
import io.sparkhaven.spark.codings.RefusedValue;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Nanoseconds since 1970 as Spark's timestamps, microseconds. */
final class InstantVector extends ConvertedVector {
  private final InstantForm form;

  InstantVector(InstantForm form, DataType type, ColumnVector nanoseconds) {
    super(type, nanoseconds);
    this.form = form;
  }

  @Override
  void require(int from, int to) throws RefusedValue {
    if (form != InstantForm.EXACT) {
      return;
    }
    for (int row = from; row < to; row++) {
      if (!values.isNullAt(row)) {
        form.of(values.getLong(row));
      }
    }
  }

  @Override
  public long getLong(int row) {
    return Math.floorDiv(values.getLong(shift + row), 1_000L);
  }
}
