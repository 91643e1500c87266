package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates that each task answers for its rows, and Spark puts together: least and greatest texts, with counts of
 * rows beside them. Spark copies each text into a row before it compares; a task compares those of a dictionary once.
 */
public final class TaskAggregates implements Serializable {
  private static final long serialVersionUID = 1;
  private static final int ROWS = -1;

  private final ArrayList<String> names = new ArrayList<>(); // of the columns that are read
  private final int[] columns; // by aggregate, in names; ROWS: it counts rows
  private final boolean[] greatest;
  private final boolean grouped;
  private StructType schema = new StructType();

  private TaskAggregates(int size, boolean grouped) {
    columns = new int[size];
    greatest = new boolean[size];
    this.grouped = grouped;
  }

  /** What tasks answer of an aggregation, by nothing or by the partition value; null: Spark has to. */
  public static TaskAggregates of(Aggregation asked, List<PlannedColumn> all) {
    Map<String, PlannedColumn> columns = PushedAggregates.byName(all);
    Expression[] groups = asked.groupByExpressions();
    AggregateFunc[] functions = asked.aggregateExpressions();
    if (groups.length > 1) {
      return null;
    }
    TaskAggregates aggregates = new TaskAggregates(functions.length, groups.length == 1);
    for (Expression group : groups) {
      PlannedColumn column = PushedAggregates.column(group, columns);
      if (column == null || !column.partitioning()) {
        return null;
      }
      aggregates.names.add(column.name());
      aggregates.schema = aggregates.schema.add(column.name(), column.type());
    }
    boolean texts = false;
    for (int number = 0; number < functions.length; number++) {
      AggregateFunc function = functions[number];
      boolean rows = function instanceof CountStar;
      if (!rows && !aggregates.takeExtreme(number, function, columns)) {
        return null;
      }
      aggregates.columns[number] = rows ? ROWS : aggregates.columns[number];
      aggregates.schema =
          aggregates.schema.add(function.toString(), rows ? DataTypes.LongType : DataTypes.StringType);
      texts |= !rows;
    }
    return texts ? aggregates : null;
  }

  private boolean takeExtreme(int number, AggregateFunc function, Map<String, PlannedColumn> all) {
    if (!(function instanceof Max || function instanceof Min) || function.children().length != 1) {
      return false;
    }
    PlannedColumn column = PushedAggregates.column(function.children()[0], all);
    if (column == null || column.partitioning() || ValueOrder.of(column) != ValueOrder.TEXTS) {
      return false;
    }
    if (!names.contains(column.name())) {
      names.add(column.name());
    }
    columns[number] = names.indexOf(column.name());
    greatest[number] = function instanceof Max;
    return true;
  }

  /** Names of the columns that tasks read. */
  public String[] columns() {
    return names.toArray(String[]::new);
  }

  /** The column that is grouped by, if one is, then a column an aggregate. */
  public StructType schema() {
    return schema;
  }

  /** How many aggregates. */
  public int size() {
    return columns.length;
  }

  /** Whether an aggregate counts rows; else it has a least or the greatest text. */
  public boolean isCount(int number) {
    return columns[number] == ROWS;
  }

  /** Whether an aggregate has the greatest text. */
  public boolean isGreatest(int number) {
    return greatest[number];
  }

  /** Index of an aggregate's column in {@link #columns()}. */
  public int column(int number) {
    return columns[number];
  }

  /** Whether there is a row for each partition value. */
  public boolean isGrouped() {
    return grouped;
  }

  /** Index of the column that is grouped by. */
  public int groupColumn() {
    return 0;
  }

  @Override
  public String toString() {
    return String.join(", ", schema.fieldNames());
  }
}
