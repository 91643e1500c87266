package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Aggregates that the plan alone answers: counts of rows, counts of values and least and greatest values as far as the
 * statistics are those of exactly the rows that are read, over all rows or for each partition value.
 */
public final class PushedAggregates {
  private final boolean byValue;
  private final StructType schema;
  private final List<InternalRow> rows;

  private PushedAggregates(boolean byValue, StructType schema, List<InternalRow> rows) {
    this.byValue = byValue;
    this.schema = schema;
    this.rows = rows;
  }

  /** The answers to an aggregation over these slices; null: they do not tell. */
  public static PushedAggregates of(Aggregation asked, List<PlannedSlice> slices, List<PlannedColumn> columns) {
    Map<String, PlannedColumn> names = byName(columns);
    StructType schema = new StructType();
    for (Expression group : asked.groupByExpressions()) {
      PlannedColumn column = column(group, names);
      if (column == null || !column.partitioning()) {
        return null;
      }
      schema = schema.add(column.name(), column.type());
    }
    boolean byValue = asked.groupByExpressions().length > 0;
    List<SliceAggregate> aggregates = new ArrayList<>();
    for (AggregateFunc function : asked.aggregateExpressions()) {
      SliceAggregate aggregate = aggregate(function, names);
      if (aggregate == null) {
        return null;
      }
      aggregates.add(aggregate);
      schema = schema.add(function.toString(), aggregate.type());
    }
    List<InternalRow> rows = rows(asked.groupByExpressions().length, aggregates, slices);
    return rows == null ? null : new PushedAggregates(byValue, schema, rows);
  }

  private static SliceAggregate aggregate(AggregateFunc function, Map<String, PlannedColumn> names) {
    if (function instanceof CountStar) {
      return new SliceAggregate.Rows();
    }
    PlannedColumn column = function.children().length == 1 ? column(function.children()[0], names) : null;
    if (column == null || column.partitioning() || column.form().hasOtherNull()) {
      return null;
    }
    if (function instanceof Count count && !count.isDistinct()) {
      return new SliceAggregate.Values(column);
    }
    ValueOrder order = ValueOrder.of(column);
    if (order == null || order == ValueOrder.TEXTS) { // bounds of texts may be cut
      return null;
    }
    if (function instanceof Min) {
      return new SliceAggregate.Extreme(column, order, false);
    }
    return function instanceof Max ? new SliceAggregate.Extreme(column, order, true) : null;
  }

  /** Columns by name. */
  public static Map<String, PlannedColumn> byName(List<PlannedColumn> columns) {
    Map<String, PlannedColumn> names = new HashMap<>();
    columns.forEach(column -> names.put(column.name(), column));
    return names;
  }

  /** The column that an expression names; null: it is none. */
  public static PlannedColumn column(Expression expression, Map<String, PlannedColumn> names) {
    return expression instanceof NamedReference reference && reference.fieldNames().length == 1
        ? names.get(reference.fieldNames()[0])
        : null;
  }

  private static List<InternalRow> rows(int groups, List<SliceAggregate> aggregates, List<PlannedSlice> slices) {
    TreeMap<String, List<PlannedSlice>> grouped = new TreeMap<>();
    if (groups == 0) {
      grouped.put("", slices);
    } else {
      slices.forEach(
          slice -> grouped.computeIfAbsent(slice.location().value(), value -> new ArrayList<>()).add(slice));
    }
    List<InternalRow> rows = new ArrayList<>();
    for (Map.Entry<String, List<PlannedSlice>> group : grouped.entrySet()) {
      Object[] row = new Object[groups + aggregates.size()];
      for (int number = 0; number < groups; number++) {
        row[number] = UTF8String.fromString(group.getKey());
      }
      for (int number = 0; number < aggregates.size(); number++) {
        if (!aggregates.get(number).known(group.getValue())) {
          return null;
        }
        row[groups + number] = aggregates.get(number).result(group.getValue());
      }
      rows.add(new GenericInternalRow(row));
    }
    return rows;
  }

  /** Columns that are grouped by, then a column an aggregate. */
  public StructType schema() {
    return schema;
  }

  /** A row a group; one where nothing is grouped by. */
  public InternalRow[] rows() {
    return rows.toArray(InternalRow[]::new);
  }

  @Override
  public String toString() {
    return String.join(", ", schema.fieldNames()) + (byValue ? " by partition value" : "");
  }
}
