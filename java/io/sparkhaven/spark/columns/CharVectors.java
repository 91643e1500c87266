package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** UTF-16 units, as strings of one character or as their numbers. */
final class CharVectors {
  private CharVectors() {}

  /**
   * Chars as the option {@code char} says.
   *
   * @param as string or int
   * @param nullChar the unit that means null
   */
  static EntryVector of(String as, String column, byte[] data, boolean nulls, int nullChar) {
    return as.equals("int") ? new Numbers(data, nulls, nullChar) : new Texts(column, data, nulls, nullChar);
  }

  private abstract static class Chars extends EntryVector {
    private final int nullChar;

    Chars(DataType type, byte[] data, boolean nulls, int nullChar) {
      super(type, data, nulls);
      this.nullChar = nullChar;
    }

    final int unit(int row) {
      return Platform.getShort(data, Platform.BYTE_ARRAY_OFFSET + 2L * row) & 0xFFFF;
    }

    @Override
    public final boolean isNullAt(int row) {
      return nulls && unit(row) == nullChar;
    }
  }

  private static final class Numbers extends Chars {
    Numbers(byte[] data, boolean nulls, int nullChar) {
      super(DataTypes.IntegerType, data, nulls, nullChar);
    }

    @Override
    public int getInt(int row) {
      return unit(row);
    }
  }

  private static final class Texts extends Chars {
    private static final UTF8String[] OF_UNITS = new UTF8String[1 << 16];

    private final String column;

    Texts(String column, byte[] data, boolean nulls, int nullChar) {
      super(DataTypes.StringType, data, nulls, nullChar);
      this.column = column;
    }

    @Override
    void settle(long first, int rows) throws ReadFailure {
      for (int row = 0; row < rows; row++) {
        int unit = unit(row);
        if (unit >= Character.MIN_SURROGATE && unit <= Character.MAX_SURROGATE) {
          throw ReadFailure.mismatch(
              "a char is half of a character",
              "column " + column,
              "a character of one UTF-16 unit",
              "the surrogate U+%04X".formatted(unit),
              "read it with option char=int");
        }
        if (OF_UNITS[unit] == null) {
          synchronized (OF_UNITS) {
            OF_UNITS[unit] = UTF8String.fromString(String.valueOf((char) unit));
          }
        }
      }
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return OF_UNITS[unit(row)];
    }
  }
}
