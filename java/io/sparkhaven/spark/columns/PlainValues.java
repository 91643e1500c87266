package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.codings.InstantForm;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.ColumnForm;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;

/**
 * Numbers, Booleans, chars as numbers, and Instants, as files have them, little-endian. The null of a type is one of its
 * values. A column that was widened has a wider type in Spark than in an old file.
 */
public final class PlainValues {
  private final String type;
  private final int width;
  private final DataType shown;
  private final InstantForm instants;
  private final long none; // the bits of null

  /** Values of a file of that form as a type of Spark. */
  public PlainValues(ColumnForm form, DataType shown, InstantForm instants) {
    this.type = form.type();
    this.width = form.width();
    this.shown = shown;
    this.instants = instants;
    this.none =
        switch (type) {
          case "float" -> Float.floatToRawIntBits(-Float.MAX_VALUE);
          case "double" -> Double.doubleToRawLongBits(-Double.MAX_VALUE);
          case "Boolean" -> -1;
          case "char" -> (short) form.nullChar();
          default -> -1L << 8 * width - 1;
        };
  }

  /** Puts values into the first rows of a vector; {@code nulls}: one may be null, else its null is a value like others. */
  public void put(byte[] data, int rows, boolean nulls, WritableColumnVector into) throws ReadFailure {
    switch (type) {
      case "Instant" -> putInstants(data, rows, nulls, into);
      case "char" -> {
        for (int row = 0; row < rows; row++) {
          into.putInt(row, (char) bits(data, row));
        }
      }
      case "Boolean" -> {
        for (int row = 0; row < rows; row++) {
          into.putBoolean(row, data[row] != 0);
        }
      }
      case "float" -> {
        if (shown.equals(DataTypes.FloatType)) {
          into.putFloatsLittleEndian(0, rows, data, 0);
        } else {
          for (int row = 0; row < rows; row++) {
            into.putDouble(row, Float.intBitsToFloat((int) bits(data, row)));
          }
        }
      }
      case "double" -> into.putDoublesLittleEndian(0, rows, data, 0);
      default -> putWholeNumbers(data, rows, into);
    }
    for (int row = 0; nulls && row < rows; row++) {
      if (bits(data, row) == none) {
        into.putNull(row);
      }
    }
  }

  private void putInstants(byte[] data, int rows, boolean nulls, WritableColumnVector into) throws ReadFailure {
    for (int row = 0; row < rows; row++) {
      long instant = bits(data, row);
      into.putLong(row, nulls && instant == none ? none : instants.of(instant));
    }
  }

  private void putWholeNumbers(byte[] data, int rows, WritableColumnVector into) {
    if (width == shown.defaultSize()) {
      switch (width) {
        case 1 -> into.putBytes(0, rows, data, 0);
        case 2 -> into.putShorts(0, rows, data, 0);
        case 4 -> into.putInts(0, rows, data, 0);
        default -> into.putLongs(0, rows, data, 0);
      }
      return;
    }
    for (int row = 0; row < rows; row++) {
      long number = bits(data, row);
      switch (shown.defaultSize()) {
        case 2 -> into.putShort(row, (short) number);
        case 4 -> into.putInt(row, (int) number);
        default -> into.putLong(row, number);
      }
    }
  }

  private long bits(byte[] data, int row) {
    long place = Platform.BYTE_ARRAY_OFFSET + (long) width * row;
    return switch (width) {
      case 1 -> data[row];
      case 2 -> Platform.getShort(data, place);
      case 4 -> Platform.getInt(data, place);
      default -> Platform.getLong(data, place);
    };
  }
}
