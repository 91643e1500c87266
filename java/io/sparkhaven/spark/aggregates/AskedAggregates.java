package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedAggregates;
import io.sparkhaven.spark.pushdown.RowValues;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates that are answered where rows are read, by the columns of one query that are grouped by. Tasks answer them
 * for their rows, and Spark puts the answers together; where a query reads few rows the driver answers for all of them.
 */
public final class AskedAggregates implements Serializable {
  private static final long serialVersionUID = 1;

  private final ArrayList<String> names = new ArrayList<>(); // of the columns that are read
  private final ArrayList<PlannedColumn> groups = new ArrayList<>();
  private final ArrayList<AskedAggregate> aggregates = new ArrayList<>();
  private StructType schema = new StructType();

  private AskedAggregates() {}

  /** What the driver answers of an aggregation over few rows; null: Spark has to. */
  public static AskedAggregates ofDriver(Aggregation asked, List<PlannedColumn> all) {
    Map<String, PlannedColumn> columns = PushedAggregates.byName(all);
    AskedAggregates taken = new AskedAggregates();
    for (Expression group : asked.groupByExpressions()) {
      PlannedColumn column = PushedAggregates.column(group, columns);
      if (column == null || RowValues.of(column) == null || !isKey(column.type())) {
        return null;
      }
      taken.groups.add(column);
      taken.read(column);
      taken.schema = taken.schema.add(column.name(), column.type());
    }
    for (AggregateFunc function : asked.aggregateExpressions()) {
      AskedAggregate aggregate = AskedAggregate.of(function, columns);
      if (aggregate == null) {
        return null;
      }
      taken.aggregates.add(aggregate);
      if (aggregate.column() != null) {
        taken.read(aggregate.column());
      }
      taken.schema = taken.schema.add(function.toString(), aggregate.type());
    }
    return taken;
  }

  /**
   * What tasks answer of an aggregation, by nothing, the partition value or a column of symbols: sums, counts, and,
   * unless by symbols, least and greatest texts. null: Spark has to, or statistics do it.
   */
  public static AskedAggregates ofTasks(Aggregation asked, List<PlannedColumn> all, List<PlannedSlice> slices) {
    AskedAggregates taken = ofDriver(asked, all);
    if (taken == null || taken.groups.size() > 1 || slices.isEmpty()) { // without a task there is no answer
      return null;
    }
    boolean mixed = taken.isMixed();
    if (mixed && !FewTexts.has(taken.groups.get(0), slices)) {
      return null;
    }
    for (AskedAggregate aggregate : taken.aggregates) {
      boolean extreme =
          aggregate.kind() == AskedAggregate.Kind.LEAST || aggregate.kind() == AskedAggregate.Kind.GREATEST;
      if (extreme && (mixed || !aggregate.isOfTexts())) {
        return null;
      }
    }
    return taken;
  }

  /** Equal keys have equal bytes. */
  private static boolean isKey(DataType type) {
    return type instanceof StringType
        || type.equals(DataTypes.BooleanType)
        || type.equals(DataTypes.ByteType)
        || type.equals(DataTypes.ShortType)
        || type.equals(DataTypes.IntegerType)
        || type.equals(DataTypes.LongType)
        || type.equals(DataTypes.DateType)
        || type.equals(DataTypes.TimestampType);
  }

  private void read(PlannedColumn column) {
    if (!names.contains(column.name())) {
      names.add(column.name());
    }
  }

  /** Names of the columns that are read. */
  public String[] columns() {
    return names.toArray(String[]::new);
  }

  /** Columns that are grouped by, then a column an aggregate. */
  public StructType schema() {
    return schema;
  }

  /** Whether whole numbers are added. */
  public boolean addsWholeNumbers() {
    return aggregates.stream().anyMatch(AskedAggregate::isSumOfWholeNumbers);
  }

  List<AskedAggregate> aggregates() {
    return aggregates;
  }

  List<PlannedColumn> groups() {
    return groups;
  }

  /** Whether rows of one location may have several groups. */
  boolean isMixed() {
    return groups.stream().anyMatch(group -> !group.partitioning());
  }

  /** Index in {@link #columns()} of a column that is read. */
  int place(PlannedColumn column) {
    return names.indexOf(column.name());
  }

  @Override
  public String toString() {
    return String.join(", ", schema.fieldNames());
  }
}
