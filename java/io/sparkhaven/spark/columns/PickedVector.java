package io.sparkhaven.spark.columns;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Some values of another vector, one after the other; or the texts of some numbers. */
public final class PickedVector extends ColumnVector {
  private final ColumnVector values; // it belongs to a column, which closes it; null: rows are numbers of texts
  private final Dictionary texts; // null: they have no numbers
  private final int[] rows;
  private boolean nulls = true;

  private PickedVector(ColumnVector values, Dictionary texts, int[] rows) {
    super(values == null ? DataTypes.StringType : values.dataType());
    this.values = values;
    this.texts = texts;
    this.rows = rows;
  }

  /** The values in these rows, which may be others for each batch. */
  public static PickedVector of(ColumnVector values, int[] rows) {
    PickedVector numbered = numbered(values);
    return new PickedVector(values, numbered == null ? null : numbered.texts, rows);
  }

  /** The texts of these numbers, which may be others for each batch. */
  public static PickedVector ofNumbers(Dictionary texts, int[] numbers) {
    return new PickedVector(null, texts, numbers);
  }

  /** A vector whose rows have numbers of texts; null: it is none. */
  public static PickedVector numbered(ColumnVector vector) {
    return vector instanceof PickedVector picked && picked.texts != null ? picked : null;
  }

  /** The texts by number: the same object for all batches of a location. */
  public Dictionary texts() {
    return texts;
  }

  /** Number of the text in a row. */
  public int number(int row) {
    return values == null ? rows[row] : ((PickedVector) values).number(rows[row]);
  }

  /** Says whether a row of the batch may be null. */
  void setNulls(boolean some) {
    nulls = some;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return values == null ? nulls : values.hasNull();
  }

  @Override
  public int numNulls() {
    return hasNull() ? 1 : 0; // not counted: Spark asks whether there are any
  }

  @Override
  public boolean isNullAt(int row) {
    return values == null ? nulls && texts.isNull(rows[row]) : values.isNullAt(rows[row]);
  }

  @Override
  public boolean getBoolean(int row) {
    return values.getBoolean(rows[row]);
  }

  @Override
  public byte getByte(int row) {
    return values.getByte(rows[row]);
  }

  @Override
  public short getShort(int row) {
    return values.getShort(rows[row]);
  }

  @Override
  public int getInt(int row) {
    return values.getInt(rows[row]);
  }

  @Override
  public long getLong(int row) {
    return values.getLong(rows[row]);
  }

  @Override
  public float getFloat(int row) {
    return values.getFloat(rows[row]);
  }

  @Override
  public double getDouble(int row) {
    return values.getDouble(rows[row]);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return values == null ? texts.text(rows[row]) : values.getUTF8String(rows[row]);
  }

  @Override
  public byte[] getBinary(int row) {
    return values.getBinary(rows[row]);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return values.getDecimal(rows[row], precision, scale);
  }

  @Override
  public ColumnarArray getArray(int row) {
    return values.getArray(rows[row]);
  }

  @Override
  public ColumnarMap getMap(int row) {
    return values.getMap(rows[row]);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return values.getChild(ordinal);
  }
}
