package io.sparkhaven.spark.columns;

import org.apache.spark.sql.types.DataType;

/** Numbers of files from before a column was widened, as those of its newest type. Null stays null. */
final class WidenedVector extends EntryVector {
  private enum Form {
    BYTE,
    SHORT,
    INT,
    FLOAT
  }

  private final Form form;
  private final EntryVector narrow;

  /**
   * The same numbers as another type.
   *
   * @param form byte, short, int or float: what {@code narrow} has
   */
  WidenedVector(String form, EntryVector narrow, DataType type) {
    super(type, narrow.data, narrow.nulls);
    this.form = Form.valueOf(form.toUpperCase(java.util.Locale.ROOT));
    this.narrow = narrow;
  }

  @Override
  public boolean isNullAt(int row) {
    return narrow.isNullAt(row);
  }

  @Override
  public short getShort(int row) {
    return (short) getInt(row);
  }

  @Override
  public int getInt(int row) {
    return switch (form) {
      case BYTE -> narrow.getByte(row);
      case SHORT -> narrow.getShort(row);
      default -> narrow.getInt(row);
    };
  }

  @Override
  public long getLong(int row) {
    return getInt(row);
  }

  @Override
  public double getDouble(int row) {
    return narrow.getFloat(row);
  }
}
