package io.sparkhaven.spark;

import io.sparkhaven.spark.aggregates.AggregateReader;
import io.sparkhaven.spark.aggregates.AskedAggregates;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedFilters;
import io.sparkhaven.spark.pushdown.RowFilter;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import io.sparkhaven.spark.tasks.TaskMaker;
import io.sparkhaven.spark.tasks.TaskReaders;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Rows of a query that an index has found to be few. The driver reads them while it plans, and applies the filters: a
 * job of Spark would take longer than that.
 */
final class FewRows {
  private static final long MOST_ROWS = 1 << 13;
  private static final long MOST_BYTES = 4 << 20;
  private static final int MOST_LOCATIONS = 64;

  private final Plan plan;
  private final List<PlannedSlice> slices;
  private final PushedFilters filters;

  private FewRows(Plan plan, List<PlannedSlice> slices, PushedFilters filters) {
    this.plan = plan;
    this.slices = slices;
    this.filters = filters;
  }

  /**
   * The rows of a query.
   *
   * @param narrowed what indexes leave of the slices
   * @return null: they are not few, or not all filters can be applied here
   */
  static FewRows of(Plan plan, PushedFilters filters, List<PlannedSlice> slices, List<PlannedSlice> narrowed) {
    if (!filters.known() || narrowed.size() > MOST_LOCATIONS || count(narrowed) > MOST_ROWS) {
      return null;
    }
    if (!slices.isEmpty() && count(narrowed) == count(slices)) { // no index has helped
      return null;
    }
    PlannedColumn[] all = plan.columns().toArray(PlannedColumn[]::new);
    long bytes = narrowed.stream().mapToLong(slice -> TaskMaker.bytes(slice, all)).sum();
    return bytes > MOST_BYTES ? null : new FewRows(plan, narrowed, filters);
  }

  private static long count(List<PlannedSlice> slices) {
    return slices.stream().mapToLong(PlannedSlice::count).sum();
  }

  /** The scan that has them, or what was made of them. */
  DriverScan scan(StructType schema, InternalRow[] rows) {
    String description =
        "sparkhaven %s, %d of %d locations, read by the driver: %d rows of %s"
            .formatted(
                plan.table(), slices.size(), plan.slices().size(), rows.length, String.join(", ", schema.fieldNames()));
    return new DriverScan(description, schema, rows, SnapshotCheck.of(plan.part("pins")), List.of());
  }

  /**
   * The rows for which all filters are true, with these columns.
   *
   * @throws UncheckedIOException a file is missing or damaged, or the snapshot no longer holds
   */
  InternalRow[] rows(StructType schema) {
    PlannedColumn[] columns = columns(schema.fieldNames());
    RowFilter filter = filters.over(columns);
    UnsafeProjection projection = UnsafeProjection.create(schema); // of the first columns
    List<InternalRow> rows = new ArrayList<>();
    try (PartitionReader<ColumnarBatch> batches = open(columns)) {
      while (batches.next()) {
        ColumnarBatch batch = batches.get();
        for (int row = 0; row < batch.numRows(); row++) {
          if (filter.holds(batch, row)) {
            rows.add(projection.apply(batch.getRow(row)).copy());
          }
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error.getMessage(), error);
    }
    return rows.toArray(InternalRow[]::new);
  }

  /**
   * The answer to an aggregation of those rows, a row a group.
   *
   * @return null: a sum does not fit into 64 bits
   * @throws UncheckedIOException as {@link #rows}
   */
  InternalRow[] aggregated(AskedAggregates asked) {
    PlannedColumn[] columns = columns(asked.columns());
    List<InternalRow> rows = new ArrayList<>();
    try (AggregateReader reader = new AggregateReader(open(columns), asked, filters.over(columns))) {
      while (reader.next()) {
        rows.add(reader.get());
      }
      return reader.hasOverflow() ? null : rows.toArray(InternalRow[]::new);
    } catch (IOException error) {
      throw new UncheckedIOException(error.getMessage(), error);
    }
  }

  /** Columns of these names, then those that filters ask beside them. */
  private PlannedColumn[] columns(String[] names) {
    Set<String> all = new LinkedHashSet<>(List.of(names));
    all.addAll(filters.columns());
    return plan.columns(all.toArray(String[]::new));
  }

  private PartitionReader<ColumnarBatch> open(PlannedColumn[] columns) {
    TaskReaders readers =
        new TaskReaders(columns, plan.checksums(), SnapshotCheck.of(plan.part("pins")), List.of(), null);
    return readers.createColumnarReader(TaskMaker.single(slices, columns));
  }
}
