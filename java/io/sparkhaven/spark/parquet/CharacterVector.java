package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.codings.RefusedValue;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** Numbers of UTF-16 units as texts of one character. */
final class CharacterVector extends ConvertedVector {
  private final UTF8String[] texts = new UTF8String[1 << 16];

  CharacterVector(ColumnVector units) {
    super(DataTypes.StringType, units);
  }

  @Override
  void require(int from, int to) throws RefusedValue {
    for (int row = from; row < to; row++) {
      if (!values.isNullAt(row) && Character.isSurrogate((char) values.getInt(row))) {
        throw RefusedValue.surrogate(values.getInt(row));
      }
    }
  }

  @Override
  public UTF8String getUTF8String(int row) {
    int unit = values.getInt(shift + row) & 0xFFFF;
    if (texts[unit] == null) {
      texts[unit] = UTF8String.fromString(String.valueOf((char) unit));
    }
    return texts[unit];
  }
}
