package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.Checksums;
import io.sparkhaven.spark.files.CommittedFile;
import io.sparkhaven.spark.plan.ColumnFiles;
import io.sparkhaven.spark.plan.ColumnForm;
import io.sparkhaven.spark.plan.FileState;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.tasks.TaskSlice;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;

/** Opens the columns of locations, each by its storage and type. */
public final class ColumnOpener {
  private final Checksums checks;
  private final Map<Integer, OnHeapColumnVector> vectors = new HashMap<>(); // by column, one for all locations

  /**
   * An opener.
   *
   * @param checks what compares committed bytes with their checksums; null: nothing does
   */
  public ColumnOpener(Checksums checks) {
    this.checks = checks;
  }

  /** What compares committed bytes with their checksums; null: nothing does. */
  public Checksums checks() {
    return checks;
  }

  /**
   * One column of a slice.
   *
   * @param number of the column among those of the task
   * @throws ReadFailure a file is missing, damaged, or of another column
   */
  public LocationColumn open(PlannedColumn column, TaskSlice slice, int number) throws IOException {
    ColumnFiles files = slice.files()[number];
    if (files.absent()) {
      if (slice.newer() && !column.partitioning()) {
        throw schemaMoved(column, slice, "is no longer stored");
      }
      return ConstantColumn.of(column, slice.location().value());
    }
    Path path = Path.of(slice.location().directory(), files.name() + ".dat");
    FileState state = files.states()[0];
    CommittedFile file = new CommittedFile(path, column.forms()[files.form()].dataOffset(), state);
    try {
      ColumnForm form = formOf(file, files, column, slice);
      if (state.size() != slice.location().rows() * form.width()) {
        throw ReadFailure.damaged(
            "committed bytes are not rows times width",
            path,
            slice.location().rows() + " x " + form.width() + " bytes",
            state.size() + " bytes");
      }
      return opened(file.checked(checks), form, files, column, slice, number);
    } catch (IOException | RuntimeException error) {
      file.close();
      throw error;
    }
  }

  /** The form that a file has by what stands before its first row: the newest, or an earlier one of the storage. */
  private static ColumnForm formOf(CommittedFile file, ColumnFiles files, PlannedColumn column, TaskSlice slice)
      throws IOException {
    byte[] begin = file.begin();
    ColumnForm newest = column.forms()[files.form()];
    for (int number = files.form(); number < column.forms().length; number++) {
      ColumnForm form = column.forms()[number];
      if (form.suffixes().length == newest.suffixes().length && FileBegin.isOf(begin, form)) {
        return form;
      }
    }
    if (slice.newer()) {
      throw schemaMoved(column, slice, "has another type now");
    }
    if (FileBegin.isBigEndian(begin)) {
      throw FileBegin.refusedOrder(file.path());
    }
    throw FileBegin.damaged(begin, newest, file.path(), column.name());
  }

  private LocationColumn opened(
      CommittedFile file, ColumnForm form, ColumnFiles files, PlannedColumn column, TaskSlice slice, int number)
      throws IOException {
    int rows = slice.batchRows();
    switch (form.storage()) {
      case "SYMBOL":
        return new SymbolColumn(file, dictionary(form, files, slice), new int[rows]);
      case "SET":
        return new SetColumn(file, dictionary(form, files, slice), vector(column, number, rows), rows);
      case "BLOB":
        CommittedFile values = new CommittedFile(companion(".bytes", files, slice), 0, state(1, files, slice));
        try {
          values.checked(checks);
          BlobColumn blobs = new BlobColumn(file, values, form, column, vector(column, number, rows), rows);
          blobs.requireLast(slice.location().rows());
          return blobs;
        } catch (IOException | RuntimeException error) {
          values.close();
          throw error;
        }
      default:
        return form.type().equals("char") && column.chars().equals("string")
            ? new CharColumn(file, column.name(), files.nulls() ? form.nullChar() : -1, new int[rows])
            : new FixedColumn(file, form, column, files.nulls(), vector(column, number, rows), rows);
    }
  }

  /** A vector takes long to make: it asks Spark for settings, which a task has to collect. */
  private OnHeapColumnVector vector(PlannedColumn column, int number, int rows) {
    OnHeapColumnVector vector = vectors.computeIfAbsent(number, made -> new OnHeapColumnVector(rows, column.type()));
    vector.reserve(rows);
    return vector;
  }

  private Dictionary dictionary(ColumnForm form, ColumnFiles files, TaskSlice slice) throws IOException {
    Path symbols = companion(".sym", files, slice);
    Path values = companion(".sym.bytes", files, slice);
    FileState symbolState = state(1, files, slice);
    FileState valueState = state(2, files, slice);
    Dictionaries.Reading reading =
        () -> {
          try (CommittedFile ends = new CommittedFile(symbols, 0, symbolState);
              CommittedFile texts = new CommittedFile(values, 0, valueState)) {
            return Dictionary.read(ends.checked(checks), texts.checked(checks), new TextCharset(form.charset()));
          }
        };
    if (checks != null && !checks.remembers()) {
      return reading.read();
    }
    String kind = form.charset() + (checks == null ? "" : ", checked");
    return Dictionaries.ofProcess().get(symbols, symbolState, values, valueState, kind, reading);
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

  /** The error for files of a later version of the schema, which a table that was opened before cannot read. */
  public static ReadFailure schemaMoved(PlannedColumn column, TaskSlice slice, String what) {
    return ReadFailure.moved(
        "the schema has changed since the table was opened. Column " + column.name() + " " + what,
        slice.location().directory(),
        "files of column " + column.name() + " as it was then",
        "files of a later version of the schema",
        "open the table again, or restart the query");
  }
}
