package io.sparkhaven.spark;

import io.sparkhaven.spark.indexes.IndexedRows;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedAggregates;
import io.sparkhaven.spark.pushdown.PushedFilters;
import io.sparkhaven.spark.pushdown.RowLimit;
import io.sparkhaven.spark.pushdown.TaskAggregates;
import java.util.List;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/** What one query asks of a snapshot. The next query of the same frame begins with a new one. */
final class PlanScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownLimit {
  static final int NO_LIMIT = -1;

  private final Plan plan;
  private final PushedFilters filters;
  private final StreamMaker streams;
  private StructType required;
  private PushedAggregates aggregates;
  private TaskAggregates taskAggregates;
  private int limit = NO_LIMIT;

  PlanScanBuilder(Plan plan, StreamMaker streams) {
    this.plan = plan;
    this.filters = new PushedFilters(plan);
    this.streams = streams;
    this.required = plan.schema();
    PythonFunctions.takeRows();
  }

  @Override
  public void pruneColumns(StructType columns) {
    required = columns;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    return filters.push(predicates);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return filters.used();
  }

  @Override
  public boolean supportCompletePushDown(Aggregation asked) {
    return filters.exact() && PushedAggregates.of(asked, filters.slices(), plan.columns()) != null;
  }

  @Override
  public boolean pushAggregation(Aggregation asked) {
    if (!filters.exact()) {
      return false;
    }
    List<PlannedSlice> slices = filters.slices();
    aggregates = PushedAggregates.of(asked, slices, plan.columns());
    if (aggregates == null && !slices.isEmpty()) { // without a task there is no answer
      taskAggregates = TaskAggregates.of(asked, plan.columns());
    }
    return aggregates != null || taskAggregates != null;
  }

  /** A limit of groups is none of rows. */
  @Override
  public boolean pushLimit(int rows) {
    if (aggregates != null || taskAggregates != null || !filters.exact()) {
      return false;
    }
    limit = rows;
    return true;
  }

  /** Spark still counts the rows, which several tasks return. */
  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public Scan build() {
    List<PlannedSlice> slices = IndexedRows.narrowed(filters.slices(), filters.lookup(), plan);
    if (aggregates != null) {
      return new AnsweredScan(plan, aggregates, slices);
    }
    if (taskAggregates != null) {
      return new AggregateScan(plan, taskAggregates, slices, filters, streams);
    }
    List<PlannedSlice> read = limit == NO_LIMIT ? slices : RowLimit.first(slices, limit);
    return new PlanScan(plan, required, read, filters, limit, streams);
  }
}
