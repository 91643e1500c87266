package io.sparkhaven.spark;

import io.sparkhaven.spark.aggregates.AggregateReaders;
import io.sparkhaven.spark.aggregates.AskedAggregates;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedFilters;
import java.util.List;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;

/** Aggregates that tasks answer for the rows that they read. Spark aggregates their answers. */
final class AggregateScan implements Scan, Batch {
  private final AskedAggregates asked;
  private final PlanScan rows;

  AggregateScan(
      Plan plan, AskedAggregates asked, List<PlannedSlice> slices, PushedFilters filters, StreamMaker streams) {
    this.asked = asked;
    this.rows = new PlanScan(plan, plan.schema(asked.columns()), slices, filters, PlanScanBuilder.NO_LIMIT, streams);
  }

  @Override
  public StructType readSchema() {
    return asked.schema();
  }

  @Override
  public String description() {
    return rows.description() + ", aggregated by its tasks: " + asked;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return rows.planInputPartitions();
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new AggregateReaders(rows.readers(), asked);
  }
}
