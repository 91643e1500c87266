package io.sparkhaven.spark.parquet;

import io.sparkhaven.spark.columns.LocationColumn;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.parquet.hadoop.ParquetInputFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport;
import org.apache.spark.sql.execution.datasources.parquet.VectorizedParquetRecordReader;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.Tuple4;
import scala.jdk.javaapi.CollectionConverters;

/** Rows of a {@code table.parquet} in ascending order, in batches, by Spark's own vectorised reader. */
final class ParquetRows implements Closeable {
  private static final String REQUESTED = "org.apache.spark.sql.parquet.row.requested_schema"; // of ParquetReadSupport
  private static final String UNSET = "<undefined>";
  private static final Configuration SETTINGS = settings();

  private final Path path;
  private final VectorizedParquetRecordReader reader;
  private long first; // row of the location that is the first of the batch
  private long next; // row after the batch

  /**
   * Opens a file.
   *
   * @param fields names in the file, and the types that its values are read as
   * @param groups the row groups that are read
   */
  ParquetRows(Path path, StructType fields, ParquetFooter.Groups groups) throws IOException {
    this.path = path;
    first = groups.first();
    next = groups.first();
    Configuration settings = new Configuration(SETTINGS);
    settings.set(REQUESTED, fields.json());
    org.apache.hadoop.fs.Path file = new org.apache.hadoop.fs.Path(path.toUri());
    FileSplit split = new FileSplit(file, groups.begin(), groups.end() - groups.begin(), new String[0]);
    TaskAttemptID task = new TaskAttemptID(new TaskID(new JobID(), TaskType.MAP, 0), 0);
    reader =
        new VectorizedParquetRecordReader(
            null, "CORRECTED", "UTC", "CORRECTED", "UTC", false, LocationColumn.MOST_ROWS);
    try {
      reader.initialize(split, new TaskAttemptContextImpl(settings, task));
      reader.resultBatch();
      reader.enableReturningBatches();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IOException(error);
    } catch (RuntimeException error) {
      reader.close();
      throw ParquetFooter.damaged(path, error);
    }
  }

  /** What Spark's reader asks of its settings: their defaults, and nanoseconds as numbers. */
  private static Configuration settings() {
    Configuration settings = new Configuration(false);
    for (Tuple4<String, String, String, String> entry :
        CollectionConverters.asJava(new SQLConf().getAllDefinedConfs())) {
      if (entry._1().contains(".parquet.") && !UNSET.equals(entry._2())) {
        settings.set(entry._1(), entry._2());
      }
    }
    settings.set("spark.sql.caseSensitive", "true");
    settings.set("spark.sql.session.timeZone", "UTC");
    settings.set("spark.sql.legacy.parquet.nanosAsLong", "true");
    settings.set("spark.sql.optimizer.nestedSchemaPruning.enabled", "true");
    settings.set(ParquetInputFormat.READ_SUPPORT_CLASS, ParquetReadSupport.class.getName());
    return settings;
  }

  /** Values of a field by its number; the same object for all batches. */
  WritableColumnVector values(int field) {
    return (WritableColumnVector) reader.resultBatch().column(field);
  }

  /** Goes on to the batch that has a row; rows before it are passed over. */
  void seek(long row) throws IOException {
    try {
      while (next <= row) {
        first = next;
        if (!reader.nextBatch()) {
          throw new IOException("no row " + row);
        }
        next = first + reader.resultBatch().numRows();
      }
    } catch (IOException | RuntimeException error) {
      throw ParquetFooter.damaged(path, error);
    }
  }

  /** Where a row stands in the batch, which has it. */
  int position(long row) {
    return (int) (row - first);
  }

  /** How many rows the batch has from a row on. */
  int left(long row) {
    return (int) (next - row);
  }

  @Override
  public void close() throws IOException {
    reader.close();
  }
}
