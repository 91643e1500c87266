package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.ColumnFiles;
import io.sparkhaven.spark.plan.ColumnForm;
import io.sparkhaven.spark.plan.FileState;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.tasks.TaskSlice;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Objects;
import org.apache.spark.sql.types.DataTypes;

/** Opens the columns of locations, each by its storage and type. */
public final class ColumnOpener {
  private ColumnOpener() {}

  /**
   * One column of a slice.
   *
   * @param number of the column among those of the task
   * @throws ReadFailure a file is missing, damaged, or of another column
   */
  public static LocationColumn open(PlannedColumn column, TaskSlice slice, int number) throws IOException {
    if (column.partitioning()) {
      return ConstantColumn.text(column.type(), slice.location().value());
    }
    ColumnFiles files = slice.files()[number];
    if (files.absent()) {
      if (slice.newer()) {
        throw schemaMoved(column, slice, "is no longer stored");
      }
      return ConstantColumn.nulls(column.type());
    }
    ColumnForm form = column.forms()[files.form()];
    Path path = Path.of(slice.location().directory(), files.name() + ".dat");
    FileState state = files.states()[0];
    if (state.size() != slice.location().rows() * form.width()) {
      throw ReadFailure.damaged(
          "committed bytes are not rows times width",
          path,
          slice.location().rows() + " x " + form.width() + " bytes",
          state.size() + " bytes");
    }
    CommittedFile file = new CommittedFile(path, form.dataOffset(), state);
    try {
      requireBegin(file, form, column, slice);
      return opened(file, form, files, column, slice);
    } catch (IOException | RuntimeException error) {
      file.close();
      throw error;
    }
  }

  private static LocationColumn opened(
      CommittedFile file, ColumnForm form, ColumnFiles files, PlannedColumn column, TaskSlice slice)
      throws IOException {
    int rows = slice.batchRows();
    switch (form.storage()) {
      case "SYMBOL":
        return new SymbolColumn(file, dictionary(form, files, slice), rows);
      case "BLOB":
        CommittedFile values = new CommittedFile(companion(".bytes", files, slice), 0, state(1, files, slice));
        return new TextColumn(file, values, new TextCharset(form.charset()), rows);
      default:
        return new FixedColumn(file, form.width(), entries(form, files, column, rows));
    }
  }

  private static EntryVector entries(ColumnForm form, ColumnFiles files, PlannedColumn column, int rows) {
    byte[] data = new byte[rows * form.width()];
    return switch (form.type()) {
      case "char" -> CharVectors.of(column.chars(), column.name(), data, files.nulls(), form.nullChar());
      case "Instant" ->
          column.instant().equals("long")
              ? new NumberVectors.Longs(DataTypes.LongType, data, files.nulls())
              : new MicrosecondVector(
                  column.name(), data, files.nulls(), column.instant().equals("timestamp-truncate"));
      default ->
          Objects.requireNonNull(NumberVectors.of(form.type(), data, files.nulls()), "type " + form.type());
    };
  }

  private static Dictionary dictionary(ColumnForm form, ColumnFiles files, TaskSlice slice) throws IOException {
    return Dictionary.read(
        companion(".sym", files, slice),
        state(1, files, slice),
        companion(".sym.bytes", files, slice),
        state(2, files, slice),
        new TextCharset(form.charset()));
  }

  private static Path companion(String suffix, ColumnFiles files, TaskSlice slice) {
    return Path.of(slice.location().directory(), files.name() + suffix);
  }

  private static FileState state(int number, ColumnFiles files, TaskSlice slice) throws ReadFailure {
    FileState state = files.states()[number];
    if (state == null) {
      throw ReadFailure.damaged(
          "companion file has no committed length",
          Path.of(slice.location().directory(), files.name() + ".dat"),
          "an entry in dataFileSizes",
          "none");
    }
    return state;
  }

  /** Compares what stands before the first row with what the writer of such a column puts there. */
  private static void requireBegin(CommittedFile file, ColumnForm form, PlannedColumn column, TaskSlice slice)
      throws IOException {
    byte[] begin = file.begin();
    if (isPadded(begin, form.prefix()) || isPadded(begin, form.overflow()) || hasGrouping(begin, form.prefix())) {
      return;
    }
    if (slice.newer()) {
      throw schemaMoved(column, slice, "has another type now");
    }
    throw ReadFailure.damaged(
        "prefix is damaged. Its bytes differ from the canonical encoding of its content",
        file.path() + ", byte " + Math.max(0, Arrays.mismatch(begin, form.prefix())),
        "the prefix of column " + column.name() + ", " + form.type() + ", width " + form.width(),
        "other bytes");
  }

  private static boolean isPadded(byte[] begin, byte[] prefix) {
    if (!Arrays.equals(begin, 0, prefix.length, prefix, 0, prefix.length)) {
      return false;
    }
    for (int position = prefix.length; position < begin.length; position++) {
      if (begin[position] != 0) {
        return false;
      }
    }
    return true;
  }

  /** Whether only the value of the last key, the grouping, differs: null there, a map here. */
  private static boolean hasGrouping(byte[] begin, byte[] prefix) {
    int common = prefix.length - 2; // null, and the end of the map
    return Arrays.equals(begin, 0, common, prefix, 0, common) && begin[common] == 's';
  }

  private static ReadFailure schemaMoved(PlannedColumn column, TaskSlice slice, String what) {
    return ReadFailure.moved(
        "the schema has changed since the table was opened. Column " + column.name() + " " + what,
        slice.location().directory(),
        "files of column " + column.name() + " as it was then",
        "files of a later version of the schema",
        "open the table again, or restart the query");
  }
}
