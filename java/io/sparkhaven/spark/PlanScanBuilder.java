package io.sparkhaven.spark;

import io.sparkhaven.spark.aggregates.AskedAggregates;
import io.sparkhaven.spark.indexes.IndexedRows;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedAggregates;
import io.sparkhaven.spark.pushdown.PushedFilters;
import io.sparkhaven.spark.pushdown.RowLimit;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
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
  private List<PlannedSlice> slices;
  private FewRows few; // null: tasks read
  private Scan answer; // to an aggregation; null: none was pushed
  private boolean averages; // Spark asks for sums and counts instead, and divides them
  private int limit = NO_LIMIT;

  PlanScanBuilder(Plan plan, StreamMaker streams) {
    this.plan = plan;
    this.filters = new PushedFilters(plan);
    this.streams = streams;
    this.required = plan.schema();
    this.slices = plan.slices();
    PythonFunctions.takeRows();
  }

  @Override
  public void pruneColumns(StructType columns) {
    required = columns;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    Predicate[] remaining = filters.push(predicates);
    List<PlannedSlice> possible = filters.slices();
    slices = IndexedRows.narrowed(possible, filters.lookup(), plan);
    few = filters.exact() ? null : FewRows.of(plan, filters, possible, slices);
    return few == null ? remaining : new Predicate[0];
  }

  @Override
  public Predicate[] pushedPredicates() {
    return filters.used();
  }

  @Override
  public boolean supportCompletePushDown(Aggregation asked) {
    averages |= Stream.of(asked.aggregateExpressions()).anyMatch(Avg.class::isInstance);
    if (few != null) {
      return asked(AskedAggregates.ofDriver(asked, plan.columns())) != null;
    }
    return filters.exact() && PushedAggregates.of(asked, slices, plan.columns()) != null;
  }

  /** Whole numbers are averaged as Spark does it, which adds them as floating-point numbers. */
  private AskedAggregates asked(AskedAggregates taken) {
    return taken == null || averages && taken.addsWholeNumbers() ? null : taken;
  }

  @Override
  public boolean pushAggregation(Aggregation asked) {
    if (few != null) {
      AskedAggregates taken = asked(AskedAggregates.ofDriver(asked, plan.columns()));
      InternalRow[] rows = taken == null ? null : few.aggregated(taken);
      answer = rows == null ? null : new DriverScan(plan, taken.schema(), few.slices(), rows);
    } else if (filters.exact()) {
      PushedAggregates known = PushedAggregates.of(asked, slices, plan.columns());
      AskedAggregates taken =
          known == null ? asked(AskedAggregates.ofTasks(asked, plan.columns(), slices)) : null;
      answer =
          known != null
              ? new AnsweredScan(plan, known, slices)
              : taken == null ? null : new AggregateScan(plan, taken, slices, filters, streams);
    }
    return answer != null;
  }

  /** A LIMIT on groups cannot be pushed as a row limit. */
  @Override
  public boolean pushLimit(int rows) {
    if (answer != null || few != null || !filters.exact()) {
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
    if (answer != null) {
      return answer;
    }
    if (few != null) {
      return new DriverScan(plan, required, few.slices(), few.rows(required));
    }
    List<PlannedSlice> read = limit == NO_LIMIT ? slices : RowLimit.first(slices, limit);
    return new PlanScan(plan, required, read, filters, limit, streams);
  }
}
