package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.plan.ColumnFiles;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.ValueOrder;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.FractionalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates of a query, by the columns that are grouped by. The plan alone answers some, by statistics. Others are
 * answered where rows are read: by tasks, whose answers Spark puts together, or by the driver where rows are few.
 */
public final class AskedAggregates implements Serializable {
  private static final long serialVersionUID = 1;
  private static final int SYMBOL_FILES = 3; // numbers, ends of texts, texts
  private static final int SHARED = 8; // rows a text: with fewer Spark has nearly as many rows to put together

  enum Kind {
    ROWS,
    VALUES,
    SUM,
    LEAST,
    GREATEST
  }

  /** One aggregate function; {@code column}: what it aggregates, null: rows. */
  record Function(Kind kind, PlannedColumn column) implements Serializable {
    /** What Spark asks for; null: it is not known here. */
    static Function of(AggregateFunc asked, Plan plan) {
      if (asked instanceof CountStar) {
        return new Function(Kind.ROWS, null);
      }
      PlannedColumn column = asked.children().length == 1 ? plan.column(asked.children()[0]) : null;
      if (column == null) {
        return null;
      }
      if (asked instanceof Count count && !count.isDistinct()) {
        return new Function(Kind.VALUES, column);
      }
      if (asked instanceof Sum sum && !sum.isDistinct() && sumType(column.type()) != null) {
        return new Function(Kind.SUM, column);
      }
      if (ValueOrder.of(column) == null) {
        return null;
      }
      if (asked instanceof Min) {
        return new Function(Kind.LEAST, column);
      }
      return asked instanceof Max ? new Function(Kind.GREATEST, column) : null;
    }

    /** Type of the sum of values of a type; null: they are not added here. */
    private static DataType sumType(DataType type) {
      if (type instanceof IntegralType) {
        return DataTypes.LongType;
      }
      boolean floating = type.equals(DataTypes.DoubleType) || type.equals(DataTypes.FloatType);
      return floating ? DataTypes.DoubleType : null;
    }

    /** Type of the result. */
    DataType type() {
      return switch (kind) {
        case ROWS, VALUES -> DataTypes.LongType;
        case SUM -> sumType(column.type());
        case LEAST, GREATEST -> column.type();
      };
    }

    boolean isSumOfWholeNumbers() {
      return kind == Kind.SUM && type().equals(DataTypes.LongType);
    }

    boolean isExtreme() {
      return kind == Kind.LEAST || kind == Kind.GREATEST;
    }

    boolean isOfTexts() {
      return isExtreme() && column.type() instanceof StringType;
    }
  }

  private final ArrayList<String> names = new ArrayList<>(); // of the columns that are read
  private final ArrayList<PlannedColumn> groups = new ArrayList<>();
  private final ArrayList<Function> functions = new ArrayList<>();
  private StructType schema = new StructType();

  private AskedAggregates() {}

  /** What Spark asks for; null: a part of it is not known here. */
  public static AskedAggregates of(Aggregation asked, Plan plan) {
    AskedAggregates taken = new AskedAggregates();
    for (Expression group : asked.groupByExpressions()) {
      PlannedColumn column = plan.column(group);
      if (column == null || ValueOrder.of(column) == null || column.type() instanceof FractionalType) {
        return null; // equal keys have equal bytes
      }
      taken.groups.add(column);
      taken.read(column);
      taken.schema = taken.schema.add(column.name(), column.type());
    }
    for (AggregateFunc function : asked.aggregateExpressions()) {
      Function known = Function.of(function, plan);
      if (known == null) {
        return null;
      }
      taken.functions.add(known);
      if (known.column() != null) {
        taken.read(known.column());
      }
      taken.schema = taken.schema.add(function.toString(), known.type());
    }
    return taken;
  }

  private void read(PlannedColumn column) {
    if (!names.contains(column.name())) {
      names.add(column.name());
    }
  }

  /**
   * Whether tasks answer: by nothing, the partition value or a column of symbols, sums, counts, and, unless by symbols,
   * least and greatest texts. Without a task there is no answer.
   */
  public boolean ofTasks(List<PlannedSlice> slices) {
    boolean mixed = isMixed();
    if (groups.size() > 1 || slices.isEmpty() || mixed && !hasFewTexts(groups.get(0), slices)) {
      return false;
    }
    return functions.stream().noneMatch(function -> function.isExtreme() && (mixed || !function.isOfTexts()));
  }

  /** Whether a column has numbers for its texts, and rows share texts. */
  private static boolean hasFewTexts(PlannedColumn column, List<PlannedSlice> slices) {
    long rows = 0;
    long texts = 0;
    for (PlannedSlice slice : slices) {
      ColumnFiles files = slice.files(column);
      if (slice.inParquet() || !files.absent() && files.states().length != SYMBOL_FILES) {
        return false;
      }
      rows += slice.count();
      texts += files.absent() ? 1 : files.states()[1].size() / Long.BYTES;
    }
    return texts * SHARED <= rows;
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
    return functions.stream().anyMatch(Function::isSumOfWholeNumbers);
  }

  List<Function> functions() {
    return functions;
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
    boolean byValue = !groups.isEmpty() && !isMixed();
    return String.join(", ", schema.fieldNames()) + (byValue ? " by partition value" : "");
  }
}
