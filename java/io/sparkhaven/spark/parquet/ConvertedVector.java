package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.codings.RefusedValue;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Values of a file as those of another type, which may lack some. */
abstract class ConvertedVector extends ShiftedVector {
  ConvertedVector(DataType type, ColumnVector values) {
    super(type, values);
  }

  /** RefusedValue: one of the rows [from, to) of {@code values} has no form in the type. */
  abstract void require(int from, int to) throws RefusedValue;
}
