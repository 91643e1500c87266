package io.sparkhaven.spark.columns;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;

/** Numbers and Booleans, read where they lie. */
final class NumberVectors {
  private static final int BASE = Platform.BYTE_ARRAY_OFFSET;

  private NumberVectors() {}

  /** Values of a type of {@code store/types/datatypes.py}; null: it is another one. */
  static EntryVector of(String type, byte[] data, boolean nulls) {
    return switch (type) {
      case "long" -> new Longs(DataTypes.LongType, data, nulls);
      case "int" -> new Ints(data, nulls);
      case "short" -> new Shorts(data, nulls);
      case "byte" -> new Bytes(data, nulls);
      case "Boolean" -> new Booleans(data, nulls);
      case "float" -> new Floats(data, nulls);
      case "double" -> new Doubles(data, nulls);
      default -> null;
    };
  }

  static final class Longs extends EntryVector implements WholeNumbers {
    Longs(DataType type, byte[] data, boolean nulls) {
      super(type, data, nulls);
    }

    @Override
    public boolean isNullAt(int row) {
      return nulls && getLong(row) == Long.MIN_VALUE;
    }

    @Override
    public long getLong(int row) {
      return Platform.getLong(data, BASE + 8L * row);
    }

    @Override
    public void copy(int rows, long[] into) {
      for (int row = 0; row < rows; row++) {
        into[row] = getLong(row);
      }
    }
  }

  private static final class Ints extends EntryVector implements WholeNumbers {
    Ints(byte[] data, boolean nulls) {
      super(DataTypes.IntegerType, data, nulls);
    }

    @Override
    public boolean isNullAt(int row) {
      return nulls && getInt(row) == Integer.MIN_VALUE;
    }

    @Override
    public int getInt(int row) {
      return Platform.getInt(data, BASE + 4L * row);
    }

    @Override
    public void copy(int rows, long[] into) {
      for (int row = 0; row < rows; row++) {
        int value = getInt(row);
        into[row] = value == Integer.MIN_VALUE ? NULL : value;
      }
    }
  }

  private static final class Shorts extends EntryVector implements WholeNumbers {
    Shorts(byte[] data, boolean nulls) {
      super(DataTypes.ShortType, data, nulls);
    }

    @Override
    public boolean isNullAt(int row) {
      return nulls && getShort(row) == Short.MIN_VALUE;
    }

    @Override
    public short getShort(int row) {
      return Platform.getShort(data, BASE + 2L * row);
    }

    @Override
    public void copy(int rows, long[] into) {
      for (int row = 0; row < rows; row++) {
        short value = getShort(row);
        into[row] = value == Short.MIN_VALUE ? NULL : value;
      }
    }
  }

  private static final class Bytes extends EntryVector implements WholeNumbers {
    Bytes(byte[] data, boolean nulls) {
      super(DataTypes.ByteType, data, nulls);
    }

    @Override
    public boolean isNullAt(int row) {
      return nulls && data[row] == Byte.MIN_VALUE;
    }

    @Override
    public byte getByte(int row) {
      return data[row];
    }

    @Override
    public void copy(int rows, long[] into) {
      for (int row = 0; row < rows; row++) {
        byte value = data[row];
        into[row] = value == Byte.MIN_VALUE ? NULL : value;
      }
    }
  }

  private static final class Booleans extends EntryVector {
    Booleans(byte[] data, boolean nulls) {
      super(DataTypes.BooleanType, data, nulls);
    }

    @Override
    public boolean isNullAt(int row) {
      return nulls && data[row] == -1;
    }

    @Override
    public boolean getBoolean(int row) {
      return data[row] != 0;
    }
  }

  private static final class Floats extends EntryVector implements FloatingNumbers {
    Floats(byte[] data, boolean nulls) {
      super(DataTypes.FloatType, data, nulls);
    }

    @Override
    public boolean isNullAt(int row) {
      return nulls && getFloat(row) == -Float.MAX_VALUE;
    }

    @Override
    public float getFloat(int row) {
      return Platform.getFloat(data, BASE + 4L * row);
    }

    @Override
    public void copy(int rows, double[] into) {
      for (int row = 0; row < rows; row++) {
        float value = getFloat(row);
        into[row] = value == -Float.MAX_VALUE ? NULL : value;
      }
    }
  }

  private static final class Doubles extends EntryVector implements FloatingNumbers {
    Doubles(byte[] data, boolean nulls) {
      super(DataTypes.DoubleType, data, nulls);
    }

    @Override
    public boolean isNullAt(int row) {
      return nulls && getDouble(row) == -Double.MAX_VALUE;
    }

    @Override
    public double getDouble(int row) {
      return Platform.getDouble(data, BASE + 8L * row);
    }

    @Override
    public void copy(int rows, double[] into) {
      for (int row = 0; row < rows; row++) {
        into[row] = getDouble(row);
      }
    }
  }
}
