package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.pushdown.PushedAggregates;
import io.sparkhaven.spark.pushdown.RowValues;
import java.io.Serializable;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;

/**
 * One aggregate function of a query.
 *
 * @param column what it aggregates; null: rows
 */
record AskedAggregate(Kind kind, PlannedColumn column) implements Serializable {
  enum Kind {
    ROWS,
    VALUES,
    SUM,
    LEAST,
    GREATEST
  }

  /** What Spark asks for; null: it is not known here. */
  static AskedAggregate of(AggregateFunc function, Map<String, PlannedColumn> columns) {
    if (function instanceof CountStar) {
      return new AskedAggregate(Kind.ROWS, null);
    }
    PlannedColumn column =
        function.children().length == 1 ? PushedAggregates.column(function.children()[0], columns) : null;
    if (column == null) {
      return null;
    }
    if (function instanceof Count count && !count.isDistinct()) {
      return new AskedAggregate(Kind.VALUES, column);
    }
    if (function instanceof Sum sum && !sum.isDistinct() && sumType(column.type()) != null) {
      return new AskedAggregate(Kind.SUM, column);
    }
    if (RowValues.of(column) == null) {
      return null;
    }
    if (function instanceof Min) {
      return new AskedAggregate(Kind.LEAST, column);
    }
    return function instanceof Max ? new AskedAggregate(Kind.GREATEST, column) : null;
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

  boolean isOfTexts() {
    return (kind == Kind.LEAST || kind == Kind.GREATEST) && column.type() instanceof StringType;
  }

  /** What adds rows; {@code mixed}: rows of a batch may have several groups. */
  Accumulator accumulator(boolean mixed) {
    return switch (kind) {
      case ROWS, VALUES -> new Counts();
      case SUM -> isSumOfWholeNumbers() ? new LongSums(column.type()) : new DoubleSums(column.type());
      case LEAST, GREATEST -> {
        boolean greatest = kind == Kind.GREATEST;
        yield mixed || !isOfTexts() ? new Extremes(RowValues.of(column), greatest) : new TextExtremes(greatest);
      }
    };
  }
}
