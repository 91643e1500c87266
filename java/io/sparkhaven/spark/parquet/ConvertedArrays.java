package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.codings.RefusedValue;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnarArray;

/** Arrays with converted elements. */
final class ConvertedArrays extends ConvertedVector {
  private final WritableColumnVector arrays;
  private final ConvertedVector elements;

  /** Of arrays, whose elements {@code elements} converts. */
  ConvertedArrays(WritableColumnVector arrays, ConvertedVector elements) {
    super(DataTypes.createArrayType(elements.dataType()), arrays);
    this.arrays = arrays;
    this.elements = elements;
  }

  @Override
  void require(int from, int to) throws RefusedValue {
    for (int row = from; row < to; row++) {
      if (!arrays.isNullAt(row)) {
        int first = arrays.getArrayOffset(row);
        elements.require(first, first + arrays.getArrayLength(row));
      }
    }
  }

  @Override
  public ColumnarArray getArray(int row) {
    return new ColumnarArray(elements, arrays.getArrayOffset(shift + row), arrays.getArrayLength(shift + row));
  }
}
