package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads predicates of Spark. What it does not know is {@link RowTest#UNKNOWN}. */
final class PredicateReader {
  /** Comparisons, and what they are with both sides exchanged. */
  private static final Map<String, String> TURNED =
      Map.of("=", "=", "<=>", "<=>", "<>", "<>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");

  private final Map<String, PlannedColumn> columns = new HashMap<>();

  PredicateReader(List<PlannedColumn> columns) {
    columns.forEach(column -> this.columns.put(column.name(), column));
  }

  RowTest read(Predicate predicate) {
    Expression[] children = predicate.children();
    return switch (predicate.name()) {
      case "AND" -> new RowTest.Joined(child(children[0]), child(children[1]), false);
      case "OR" -> new RowTest.Joined(child(children[0]), child(children[1]), true);
      case "NOT" -> new RowTest.Not(child(children[0]));
      case "ALWAYS_TRUE" -> new RowTest.Always(Outcomes.TRUE);
      case "ALWAYS_FALSE" -> new RowTest.Always(Outcomes.FALSE);
      default -> ofColumn(predicate.name(), children);
    };
  }

  private RowTest child(Expression expression) {
    return expression instanceof Predicate predicate ? read(predicate) : RowTest.UNKNOWN;
  }

  private RowTest ofColumn(String name, Expression[] children) {
    if (children.length == 2 && children[0] instanceof Literal<?> && TURNED.containsKey(name)) {
      return ofColumn(TURNED.get(name), new Expression[] {children[1], children[0]});
    }
    PlannedColumn column = children.length == 0 ? null : column(children[0]);
    if (column == null) {
      return RowTest.UNKNOWN;
    }
    return switch (name) {
      case "IS_NULL" -> new ColumnTest.IsNull(column.name());
      case "IS_NOT_NULL" -> new RowTest.Not(new ColumnTest.IsNull(column.name()));
      case "=", "<=>", "<", "<=", ">", ">=" -> comparison(column, name, children[1]);
      case "<>" -> new RowTest.Not(comparison(column, "=", children[1]));
      case "IN" -> oneOf(column, children);
      case "STARTS_WITH", "ENDS_WITH", "CONTAINS" -> text(column, name, children[1]);
      default -> RowTest.UNKNOWN;
    };
  }

  /** The column that an expression is; null: it is none of the table. */
  private PlannedColumn column(Expression expression) {
    if (expression instanceof NamedReference reference && reference.fieldNames().length == 1) {
      return columns.get(reference.fieldNames()[0]);
    }
    return null;
  }

  private static RowTest comparison(PlannedColumn column, String operator, Expression with) {
    ValueOrder order = ValueOrder.of(column);
    if (!isLiteral(with, column)) {
      return RowTest.UNKNOWN;
    }
    Object value = ((Literal<?>) with).value();
    if (value == null) {
      return operator.equals("<=>") ? new ColumnTest.IsNull(column.name()) : new RowTest.Always(Outcomes.NULL);
    }
    Object literal = order == null ? null : order.literal(value, column.type());
    return literal == null ? RowTest.UNKNOWN : new Comparison(column.name(), order, operator, literal);
  }

  private static RowTest oneOf(PlannedColumn column, Expression[] children) {
    ValueOrder order = ValueOrder.of(column);
    List<Object> literals = new ArrayList<>();
    boolean orNull = false;
    for (int number = 1; number < children.length; number++) {
      if (order == null || !isLiteral(children[number], column)) {
        return RowTest.UNKNOWN;
      }
      Object value = ((Literal<?>) children[number]).value();
      Object literal = value == null ? null : order.literal(value, column.type());
      if (value != null && literal == null) {
        return RowTest.UNKNOWN;
      }
      orNull |= value == null;
      if (literal != null) {
        literals.add(literal);
      }
    }
    return new OneOf(column.name(), order, literals, orNull);
  }

  private static RowTest text(PlannedColumn column, String kind, Expression with) {
    boolean texts = ValueOrder.of(column) == ValueOrder.TEXTS && isLiteral(with, column);
    Object value = texts ? ((Literal<?>) with).value() : null;
    return value instanceof UTF8String part ? new TextTest(column.name(), kind, part) : RowTest.UNKNOWN;
  }

  private static boolean isLiteral(Expression expression, PlannedColumn column) {
    return expression instanceof Literal<?> literal && literal.dataType().equals(column.type());
  }
}
