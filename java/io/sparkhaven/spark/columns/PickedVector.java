package io.sparkhaven.spark.columns;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Some values of another vector. */
public class PickedVector extends ColumnVector {
  final int[] rows;
  private final ColumnVector values; // it belongs to a column, which closes it

  private PickedVector(ColumnVector values, int[] rows) {
    super(values.dataType());
    this.values = values;
    this.rows = rows;
  }

  /**
   * The values in these rows, one after the other.
   *
   * @param rows they may be others for each batch
   */
  public static PickedVector of(ColumnVector values, int[] rows) {
    return values instanceof NumberedTexts texts ? new Texts(values, texts, rows) : new PickedVector(values, rows);
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
    return values.isNullAt(rows[row]);
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
    return values.getUTF8String(rows[row]);
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

  /** Texts that are still numbers of a dictionary. */
  private static final class Texts extends PickedVector implements NumberedTexts {
    private final NumberedTexts texts;

    Texts(ColumnVector values, NumberedTexts texts, int[] rows) {
      super(values, rows);
      this.texts = texts;
    }

    @Override
    public int number(int row) {
      return texts.number(rows[row]);
    }

    @Override
    public int size() {
      return texts.size();
    }

    @Override
    public UTF8String text(int number) {
      return texts.text(number);
    }
  }
}
