package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.checksums.Checksums;
import io.sparkhaven.spark.codings.InstantForm;
import io.sparkhaven.spark.columns.ColumnOpener;
import io.sparkhaven.spark.columns.CommittedFile;
import io.sparkhaven.spark.columns.ConstantColumn;
import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.FileState;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.tasks.TaskSlice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** The columns of a location that has its rows in {@code table.parquet}. */
public final class ParquetColumns {
  static final String NAME = "table.parquet";

  private ParquetColumns() {}

  /**
   * Opens columns of a slice. The first one that is not constant closes the file.
   *
   * @param checks what compares committed bytes with their checksums; null: nothing does
   * @throws ReadFailure the file is missing or damaged, or a field is another column's
   */
  public static LocationColumn[] open(PlannedColumn[] columns, TaskSlice slice, Checksums checks) throws IOException {
    Path path = Path.of(slice.location().directory(), NAME);
    FileState state = slice.parquet();
    try (CommittedFile file = new CommittedFile(path, 0, state)) {
      file.checked(checks);
    }
    if (Files.size(path) != state.size()) {
      throw ReadFailure.of(
          "CorruptFileError",
          "Parquet file is longer than its committed length",
          path,
          state.size() + " bytes",
          Files.size(path) + " bytes",
          null);
    }
    ParquetFooter footer = ParquetFooter.read(path, slice.location().rows());
    String[] names = new String[columns.length];
    StructType fields = new StructType();
    for (int number = 0; number < columns.length; number++) {
      String name = slice.files()[number].name();
      if (slice.newer() && footer.isOfAnother(columns[number], name)) {
        throw ColumnOpener.schemaMoved(columns[number], slice, "has another name now");
      }
      names[number] = columns[number].partitioning() ? null : footer.field(columns[number], name);
      if (names[number] == null && !columns[number].partitioning() && slice.newer()) {
        throw ColumnOpener.schemaMoved(columns[number], slice, "is no longer stored");
      }
      if (names[number] != null) {
        fields = fields.add(names[number], stored(columns[number], columns[number].type()), true);
      }
    }
    long[] ranges = slice.ranges();
    ParquetRows rows =
        fields.isEmpty()
            ? null
            : new ParquetRows(
                path, fields, footer.groups(ranges[0], ranges[ranges.length - 1]), LocationColumn.MOST_ROWS);
    LocationColumn[] opened = new LocationColumn[columns.length];
    for (int number = 0; number < columns.length; number++) {
      PlannedColumn column = columns[number];
      if (column.partitioning()) {
        opened[number] = ConstantColumn.text(column.type(), slice.location().value());
      } else if (names[number] == null) {
        opened[number] = ConstantColumn.none(column);
      } else {
        ColumnVector values = rows.values(fields.fieldIndex(names[number]));
        opened[number] = new ParquetColumn(rows, column.name(), shown(column, values));
      }
    }
    return opened;
  }

  /** The type that Spark's reader gives a column's values as: Instants are nanoseconds there, and chars numbers. */
  private static DataType stored(PlannedColumn column, DataType type) {
    if (type instanceof ArrayType list) {
      return DataTypes.createArrayType(stored(column, list.elementType()), true);
    }
    if (isChar(column)) {
      return DataTypes.IntegerType;
    }
    return type.equals(DataTypes.TimestampType) ? DataTypes.LongType : type;
  }

  private static boolean isChar(PlannedColumn column) {
    return column.form().type().equals("char") || column.form().type().equals("char[]");
  }

  private static ShiftedVector shown(PlannedColumn column, ColumnVector values) {
    if (column.type() instanceof ArrayType list) {
      ConvertedVector elements = converted(column, list.elementType(), values.getChild(0));
      return elements == null
          ? new ShiftedVector(column.type(), values)
          : new ConvertedArrays((WritableColumnVector) values, elements);
    }
    ConvertedVector converted = converted(column, column.type(), values);
    return converted == null ? new ShiftedVector(column.type(), values) : converted;
  }

  /** null: the values are as Spark's reader gives them. */
  private static ConvertedVector converted(PlannedColumn column, DataType type, ColumnVector values) {
    if (type.equals(DataTypes.TimestampType)) {
      return new InstantVector(InstantForm.named(column.instant()), type, values);
    }
    return isChar(column) && type.equals(DataTypes.StringType) ? new CharacterVector(values) : null;
  }
}
