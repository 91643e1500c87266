package io.sparkhaven.spark.columns;

import java.util.stream.IntStream;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Some values of another vector, one after the other. A column of symbols has numbers, and as values the texts of all
 * numbers.
 */
public final class PickedVector extends ColumnVector {
  private final ColumnVector values; // it belongs to a column, which closes it
  private final int[] rows;
  private final UTF8String[] few; // the values as objects, where they are few texts with numbers; else null
  private final boolean isNumbered;
  private boolean nulls = true;

  private PickedVector(ColumnVector values, int[] rows, UTF8String[] few, boolean isNumbered) {
    super(values.dataType());
    this.values = values;
    this.rows = rows;
    this.few = few;
    this.isNumbered = isNumbered;
  }

  /** The values in these rows, which may be others for each batch. */
  public static PickedVector of(ColumnVector values, int[] rows) {
    return new PickedVector(values, rows, null, numbered(values) != null);
  }

  /**
   * The texts of these numbers, which may be others for each batch.
   *
   * @param few all texts as objects; null: they are many
   */
  public static PickedVector ofNumbers(ColumnVector texts, UTF8String[] few, int[] numbers) {
    return new PickedVector(texts, numbers, few, true);
  }

  /** Texts of the first so many numbers as objects. */
  public static UTF8String[] objects(ColumnVector texts, int count) {
    return IntStream.range(0, count).mapToObj(texts::getUTF8String).toArray(UTF8String[]::new);
  }

  /** A vector whose rows have numbers of texts; null: it is none. */
  public static PickedVector numbered(ColumnVector vector) {
    return vector instanceof PickedVector picked && picked.isNumbered ? picked : null;
  }

  /** The texts by number: the same object for all batches of a location. */
  public ColumnVector texts() {
    return values instanceof PickedVector picked ? picked.texts() : values;
  }

  /** Number of the text in a row. */
  public int number(int row) {
    return values instanceof PickedVector picked ? picked.number(rows[row]) : rows[row];
  }

  /** Says whether a row of the batch may be null. */
  void setNulls(boolean some) {
    nulls = some;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return nulls && values.hasNull();
  }

  @Override
  public int numNulls() {
    return hasNull() ? 1 : 0; // not counted: Spark asks whether there are any
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls && (few == null ? values.isNullAt(rows[row]) : few[rows[row]] == null);
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
    return few == null ? values.getUTF8String(rows[row]) : few[rows[row]];
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
