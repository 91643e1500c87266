package io.sparkhaven.spark;

import io.sparkhaven.spark.aggregates.AskedAggregates;
import io.sparkhaven.spark.aggregates.StatisticsAnswer;
import io.sparkhaven.spark.indexes.IndexedRows;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedFilters;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** What one query asks of a snapshot. The next query of the same frame begins with a new one. */
final class PlanScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownLimit {
  private static final int NO_LIMIT = -1;
  private static final String WHOLE_COLUMNS = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled";

  private final Plan plan;
  private final PushedFilters filters;
  private final Function<String, MicroBatchStream> streams;
  private StructType required;
  private List<PlannedSlice> slices;
  private FewRows few; // null: tasks read
  private Scan answer; // to an aggregation; null: none was pushed
  private boolean averages; // Spark asks for sums and counts instead, and divides them
  private int limit = NO_LIMIT;

  PlanScanBuilder(Plan plan, Function<String, MicroBatchStream> streams) {
    this.plan = plan;
    this.filters = new PushedFilters(plan);
    this.streams = streams;
    this.required = plan.schema();
    this.slices = plan.slices();
    takeRows();
  }

  /**
   * Functions of Python take rows in this query and later ones of the session. Spark 4.2.0 can hand over whole columns,
   * and then waits for ever unless they are Arrow's; with files of its own Parquet, too. Older releases have no such
   * setting.
   */
  private static void takeRows() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isDefined() && session.get().conf().getOption(WHOLE_COLUMNS).contains("true")) {
      session.get().conf().set(WHOLE_COLUMNS, "false");
    }
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
    AskedAggregates taken = AskedAggregates.of(asked, plan);
    if (taken == null) {
      return false;
    }
    return few != null ? isExact(taken) : filters.exact() && StatisticsAnswer.of(taken, slices) != null;
  }

  /** Whole numbers are averaged as Spark does it, which adds them as floating-point numbers. */
  private boolean isExact(AskedAggregates taken) {
    return !(averages && taken.addsWholeNumbers());
  }

  @Override
  public boolean pushAggregation(Aggregation asked) {
    AskedAggregates taken = AskedAggregates.of(asked, plan);
    if (taken == null || few == null && !filters.exact()) {
      return false;
    }
    InternalRow[] known = few == null ? StatisticsAnswer.of(taken, slices) : null;
    if (known != null) {
      String description = "sparkhaven " + plan.table() + ", from the plan: " + taken;
      SnapshotCheck check = SnapshotCheck.of(plan.part("pins"));
      answer = new DriverScan(description, taken.schema(), known, check, slices);
    } else if (isExact(taken) && few != null) {
      InternalRow[] rows = few.aggregated(taken);
      answer = rows == null ? null : few.scan(taken.schema(), rows);
    } else if (isExact(taken) && taken.ofTasks(slices)) {
      answer = new PlanScan(plan, taken.schema(), slices, filters, taken, NO_LIMIT, streams);
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
      return few.scan(required, few.rows(required));
    }
    List<PlannedSlice> read = limit == NO_LIMIT ? slices : PlannedSlice.first(slices, limit);
    return new PlanScan(plan, required, read, filters, null, limit, streams);
  }
}
