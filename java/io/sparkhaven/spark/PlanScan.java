package io.sparkhaven.spark;

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
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** Slices and columns that one query reads. */
final class PlanScan implements Scan, Batch, SupportsReportStatistics {
  private final Plan plan;
  private final StructType schema;
  private final PlannedColumn[] columns;
  private final List<PlannedSlice> slices;
  private final PushedFilters filters;
  private final int limit;
  private final StreamMaker streams;

  /** {@code limit}: the slices have the first so many rows of what the filters leave; below 0: all of it. */
  PlanScan(
      Plan plan,
      StructType schema,
      List<PlannedSlice> slices,
      PushedFilters filters,
      int limit,
      StreamMaker streams) {
    this.plan = plan;
    this.schema = schema;
    this.columns = plan.columns(schema.fieldNames());
    this.slices = slices;
    this.filters = filters;
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
    return "sparkhaven %s, %d of %d locations, %d of %d rows%s, filters %s%s"
        .formatted(
            plan.table(), slices.size(), plan.slices().size(), rows(slices), rows(plan.slices()), where,
            Arrays.toString(filters.used()), limited);
  }

  /** Spark reads once what two parts of a query read alike: columns and rows of one frame, by the same filters. */
  @Override
  public boolean equals(Object other) {
    return other instanceof PlanScan scan
        && plan == scan.plan
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

  /** The same table as a stream, which Python reads row by row; so each task says for itself that it has columns. */
  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return streams.make(checkpoint);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.PARTITION_DEFINED;
  }

  @Override
  public Statistics estimateStatistics() {
    long rows = 0;
    long size = 0;
    for (PlannedSlice slice : slices) {
      rows += slice.count();
      size += TaskMaker.bytes(slice, columns);
    }
    return new Estimate(OptionalLong.of(size), OptionalLong.of(rows));
  }

  @Override
  public InputPartition[] planInputPartitions() {
    int cores = Math.max(1, SparkSession.active().sparkContext().defaultParallelism());
    return TaskMaker.make(slices, columns, plan.taskBytes(), cores);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return readers();
  }

  TaskReaders readers() {
    return new TaskReaders(columns, plan.checksums(), SnapshotCheck.of(plan.part("pins")), filters.conditions());
  }
}
