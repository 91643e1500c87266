package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.codings.Characters;
import io.sparkhaven.spark.codings.InstantForm;
import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.columns.PickedVector;
import io.sparkhaven.spark.plan.PlannedColumn;
import java.io.IOException;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * One column of a {@code table.parquet}; all of a location share its rows. Instants are nanoseconds there and chars
 * numbers, also in arrays, and are converted.
 */
final class ParquetColumn extends LocationColumn {
  private final ParquetRows rows;
  private final PlannedColumn column;
  private final InstantForm instants;
  private final WritableColumnVector stored;
  private final WritableColumnVector converted; // null: values are as they are stored
  private final int[] places; // of the rows of a batch among those that are stored

  private ParquetColumn(
      ParquetRows rows, PlannedColumn column, WritableColumnVector stored, OnHeapColumnVector converted, int[] places) {
    super(converted == null ? PickedVector.of(stored, places) : converted, rows);
    this.rows = rows;
    this.column = column;
    this.instants = new InstantForm(column.instant(), column.name());
    this.stored = stored;
    this.converted = converted;
    this.places = places;
  }

  /** {@code stored}: values as Spark's reader gives them. */
  static ParquetColumn of(ParquetRows rows, PlannedColumn column, WritableColumnVector stored) {
    boolean differs = !storedType(column, column.type()).equals(column.type());
    OnHeapColumnVector converted = differs ? new OnHeapColumnVector(MOST_ROWS, column.type()) : null;
    return new ParquetColumn(rows, column, stored, converted, new int[MOST_ROWS]);
  }

  /** The type that Spark's reader gives the values of a type as. */
  static DataType storedType(PlannedColumn column, DataType type) {
    if (type instanceof ArrayType list) {
      return DataTypes.createArrayType(storedType(column, list.elementType()), list.containsNull());
    }
    boolean isChar = column.form().type().equals("char") || column.form().type().equals("char[]");
    return isChar ? DataTypes.IntegerType : type.equals(DataTypes.TimestampType) ? DataTypes.LongType : type;
  }

  @Override
  public int room(long first, int count) throws IOException {
    rows.seek(first);
    return Math.min(count, rows.left(first));
  }

  @Override
  public void move(long first, int count) throws IOException {
    rows.seek(first);
    int shift = rows.position(first);
    if (converted == null) {
      for (int row = 0; row < count; row++) {
        places[row] = shift + row;
      }
      return;
    }
    converted.reset();
    for (int row = 0; row < count; row++) {
      int place = shift + row;
      if (stored.isNullAt(place)) {
        converted.putNull(row);
      } else if (column.type() instanceof ArrayType) {
        WritableColumnVector elements = converted.arrayData();
        int from = stored.getArrayOffset(place);
        int length = stored.getArrayLength(place);
        int to = elements.appendNotNulls(length);
        converted.putArray(row, to, length);
        for (int index = 0; index < length; index++) {
          convert(stored.arrayData(), from + index, elements, to + index);
        }
      } else {
        convert(stored, place, converted, row);
      }
    }
  }

  private void convert(WritableColumnVector from, int place, WritableColumnVector into, int row) throws IOException {
    if (from.isNullAt(place)) {
      into.putNull(row);
    } else if (into.dataType().equals(DataTypes.TimestampType)) {
      into.putLong(row, instants.of(from.getLong(place)));
    } else {
      into.putByteArray(row, Characters.TEXTS[Characters.number(from.getInt(place), column.name())].getBytes());
    }
  }
}
