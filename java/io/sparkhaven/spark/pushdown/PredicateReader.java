package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads predicates of Spark over the columns of a plan. What it does not know is {@link RowTest#UNKNOWN}. */
record PredicateReader(Plan plan) {
  /** Comparisons, and what they are with both sides exchanged. */
  private static final Map<String, String> TURNED =
      Map.of("=", "=", "<=>", "<=>", "<>", "<>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");

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
    PlannedColumn column = children.length == 0 ? null : plan.column(children[0]);
    if (column == null) {
      return RowTest.UNKNOWN;
    }
    RowTest isNull = new RowTest.IsNull(column.name());
    return switch (name) {
      case "IS_NULL" -> isNull;
      case "IS_NOT_NULL" -> new RowTest.Not(isNull);
      case "=", "IN" -> oneOf(column, children);
      case "<>" -> new RowTest.Not(oneOf(column, children));
      case "<=>" ->
          children[1] instanceof Literal<?> literal && literal.value() == null
              ? isNull
              : new RowTest.Joined(new RowTest.Not(isNull), oneOf(column, children), false);
      case "<", "<=" -> less(column, children[1], name.equals("<="));
      case ">", ">=" -> new RowTest.Not(less(column, children[1], name.equals(">")));
      case "STARTS_WITH", "ENDS_WITH", "CONTAINS" -> part(column, name, children[1]);
      default -> RowTest.UNKNOWN;
    };
  }

  /** {@code children}: the column, then literals. */
  private static RowTest oneOf(PlannedColumn column, Expression[] children) {
    ValueOrder order = ValueOrder.of(column);
    List<Object> literals = new ArrayList<>();
    boolean orNull = false;
    for (int number = 1; number < children.length; number++) {
      if (order == null || !isLiteral(children[number], column)) {
        return RowTest.UNKNOWN;
      }
      Object value = ((Literal<?>) children[number]).value();
      Object literal = order.of(value, column.type());
      if (value != null && literal == null) {
        return RowTest.UNKNOWN;
      }
      orNull |= value == null;
      if (literal != null) {
        literals.add(literal);
      }
    }
    if (order != null) {
      literals.sort(order::compare);
    }
    return new RowTest.OneOf(column.name(), order, literals, orNull);
  }

  private static RowTest less(PlannedColumn column, Expression with, boolean orEqual) {
    ValueOrder order = ValueOrder.of(column);
    if (order == null || !isLiteral(with, column)) {
      return RowTest.UNKNOWN;
    }
    Object value = ((Literal<?>) with).value();
    if (value == null) {
      return new RowTest.Always(Outcomes.NULL);
    }
    Object literal = order.of(value, column.type());
    return literal == null ? RowTest.UNKNOWN : new RowTest.Less(column.name(), order, literal, orEqual);
  }

  private static RowTest part(PlannedColumn column, String kind, Expression with) {
    boolean texts = ValueOrder.of(column) == ValueOrder.TEXTS && isLiteral(with, column);
    Object value = texts ? ((Literal<?>) with).value() : null;
    return value instanceof UTF8String part ? new RowTest.Part(column.name(), kind, part) : RowTest.UNKNOWN;
  }

  private static boolean isLiteral(Expression expression, PlannedColumn column) {
    return expression instanceof Literal<?> literal && literal.dataType().equals(column.type());
  }
}
