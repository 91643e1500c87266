package io.sparkhaven.spark;

import io.sparkhaven.spark.aggregates.AskedAggregates;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedFilters;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import io.sparkhaven.spark.tasks.TaskMaker;
import io.sparkhaven.spark.tasks.TaskReaders;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** Slices and columns that one query reads, or aggregates that its tasks answer for the rows that they read. */
final class PlanScan implements Scan, Batch, SupportsReportStatistics {
  private final Plan plan;
  private final StructType schema;
  private final PlannedColumn[] columns;
  private final List<PlannedSlice> slices;
  private final PushedFilters filters;
  private final AskedAggregates asked;
  private final int limit;
  private final Function<String, MicroBatchStream> streams;

  /**
   * A scan.
   *
   * @param asked what tasks answer, which Spark then aggregates; null: they return rows
   * @param limit the slices have the first so many rows of what the filters leave; below 0: all of it
   * @param streams makes the stream that keeps its progress below a path; null: the table is a batch only
   */
  PlanScan(
      Plan plan,
      StructType schema,
      List<PlannedSlice> slices,
      PushedFilters filters,
      AskedAggregates asked,
      int limit,
      Function<String, MicroBatchStream> streams) {
    this.plan = plan;
    this.schema = schema;
    this.columns = plan.columns(asked == null ? schema.fieldNames() : asked.columns());
    this.slices = slices;
    this.filters = filters;
    this.asked = asked;
    this.limit = limit;
    this.streams = streams;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    String limited = limit < 0 ? "" : ", limit";
    String where = plan.where().isEmpty() ? "" : " where " + plan.where();
    String aggregated = asked == null ? "" : ", aggregated by its tasks: " + asked;
    return "sparkhaven %s, %d of %d locations, %d of %d rows%s, filters %s%s%s"
        .formatted(
            plan.table(), slices.size(), plan.slices().size(), rows(slices), rows(plan.slices()), where,
            Arrays.toString(filters.used()), limited, aggregated);
  }

  /** Spark reads once what two parts of a query read alike: columns and rows of one frame, by the same filters. */
  @Override
  public boolean equals(Object other) {
    return other instanceof PlanScan scan
        && plan == scan.plan
        && asked == scan.asked
        && limit == scan.limit
        && schema.equals(scan.schema)
        && Arrays.equals(filters.used(), scan.filters.used());
  }

  @Override
  public int hashCode() {
    return Objects.hash(System.identityHashCode(plan), limit, schema, Arrays.hashCode(filters.used()));
  }

  private static long rows(List<PlannedSlice> slices) {
    return slices.stream().mapToLong(PlannedSlice::count).sum();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  /** The same table as a stream, which Python reads row by row. Spark tells which of both it wants after this is built. */
  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return streams.apply(checkpoint);
  }

  /** What Spark plans joins with. How many groups there are is not known. */
  record Estimate(OptionalLong sizeInBytes, OptionalLong numRows) implements Statistics {
    Estimate(long size, long rows) {
      this(OptionalLong.of(size), OptionalLong.of(rows));
    }
  }

  @Override
  public Statistics estimateStatistics() {
    long size = slices.stream().mapToLong(slice -> TaskMaker.bytes(slice, columns)).sum();
    return asked == null
        ? new Estimate(size, rows(slices))
        : new Estimate(OptionalLong.empty(), OptionalLong.empty());
  }

  @Override
  public InputPartition[] planInputPartitions() {
    int cores = Math.max(1, SparkSession.active().sparkContext().defaultParallelism());
    return TaskMaker.make(slices, columns, plan.taskBytes(), cores);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    SnapshotCheck check = SnapshotCheck.of(plan.part("pins"));
    return new TaskReaders(columns, plan.checksums(), check, filters.conditions(), asked);
  }
}
