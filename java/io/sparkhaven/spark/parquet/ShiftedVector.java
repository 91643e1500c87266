package io.sparkhaven.spark.parquet;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Values of another vector from some row on. Subclasses show them as another type. */
class ShiftedVector extends ColumnVector {
  /** The values; it belongs to a reader, which closes it. */
  final ColumnVector values;

  /** The row of {@code values} that is row 0 here. */
  int shift;

  ShiftedVector(DataType type, ColumnVector values) {
    super(type);
    this.values = values;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return values.hasNull();
  }

  @Override
  public int numNulls() {
    return values.numNulls(); // of the whole batch: Spark asks whether there are any
  }

  @Override
  public boolean isNullAt(int row) {
    return values.isNullAt(shift + row);
  }

  @Override
  public boolean getBoolean(int row) {
    return values.getBoolean(shift + row);
  }

  @Override
  public byte getByte(int row) {
    return values.getByte(shift + row);
  }

  @Override
  public short getShort(int row) {
    return values.getShort(shift + row);
  }

  @Override
  public int getInt(int row) {
    return values.getInt(shift + row);
  }

  @Override
  public long getLong(int row) {
    return values.getLong(shift + row);
  }

  @Override
  public float getFloat(int row) {
    return values.getFloat(shift + row);
  }

  @Override
  public double getDouble(int row) {
    return values.getDouble(shift + row);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return values.getUTF8String(shift + row);
  }

  @Override
  public byte[] getBinary(int row) {
    return values.getBinary(shift + row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return values.getDecimal(shift + row, precision, scale);
  }

  @Override
  public ColumnarArray getArray(int row) {
    return values.getArray(shift + row);
  }

  @Override
  public ColumnarMap getMap(int row) {
    return values.getMap(shift + row);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return values.getChild(ordinal);
  }
}
