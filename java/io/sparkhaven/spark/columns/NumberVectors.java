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

  static final class Longs extends EntryVector {
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
  }

  private static final class Ints extends EntryVector {
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
  }

  private static final class Shorts extends EntryVector {
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
  }

  private static final class Bytes extends EntryVector {
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

  private static final class Floats extends EntryVector {
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
  }

  private static final class Doubles extends EntryVector {
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
  }
}
