package io.sparkhaven.spark.pushdown;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.unsafe.types.UTF8String;

/** A condition of a query, as far as it can be asked of statistics. */
interface RowTest extends Serializable {
  /** Nothing is known of it. */
  RowTest UNKNOWN = new Always(Outcomes.ANY);

  /** What it may be for rows of which {@code values} knows the columns, by name. */
  int outcomes(Function<String, ColumnValues> values);

  /** Adds the columns that it asks. */
  void addColumns(Set<String> names);

  /** Whether it is the condition itself, where a column has one value that is known. */
  boolean exact();

  /** What of it an index answers; null: nothing. */
  default Lookup lookup() {
    return null;
  }

  /** One of these outcomes for each row, whatever its values are. */
  record Always(int outcomes) implements RowTest {
    @Override
    public int outcomes(Function<String, ColumnValues> values) {
      return outcomes;
    }

    @Override
    public void addColumns(Set<String> names) {}

    @Override
    public boolean exact() {
      return Integer.bitCount(outcomes) == 1;
    }
  }

  /** Of the opposite. */
  record Not(RowTest test) implements RowTest {
    @Override
    public int outcomes(Function<String, ColumnValues> values) {
      return Outcomes.not(test.outcomes(values));
    }

    @Override
    public void addColumns(Set<String> names) {
      test.addColumns(names);
    }

    @Override
    public boolean exact() {
      return test.exact();
    }
  }

  /** Of both, or ({@code any}) of one of them. */
  record Joined(RowTest left, RowTest right, boolean any) implements RowTest {
    @Override
    public int outcomes(Function<String, ColumnValues> values) {
      int first = left.outcomes(values);
      int second = right.outcomes(values);
      return any ? Outcomes.or(first, second) : Outcomes.and(first, second);
    }

    @Override
    public Lookup lookup() {
      List<Lookup> both = Arrays.asList(left.lookup(), right.lookup());
      return any ? Lookup.any(both.get(0), both.get(1)) : Lookup.all(both);
    }

    @Override
    public void addColumns(Set<String> names) {
      left.addColumns(names);
      right.addColumns(names);
    }

    @Override
    public boolean exact() {
      return left.exact() && right.exact();
    }
  }

  /** A condition of one column and literals. */
  interface OfColumn extends RowTest {
    String column();

    /** What it may be for rows with such values. */
    int outcomes(ColumnValues values);

    @Override
    default int outcomes(Function<String, ColumnValues> values) {
      return outcomes(values.apply(column()));
    }

    @Override
    default void addColumns(Set<String> names) {
      names.add(column());
    }

    @Override
    default boolean exact() {
      return true;
    }
  }

  /** Whether a value is null. */
  record IsNull(String column) implements OfColumn {
    @Override
    public int outcomes(ColumnValues values) {
      return Outcomes.of(values.nulls(), values.nans() || values.others());
    }
  }

  /** Whether a value is less than a literal that is not null, or ({@code orEqual}) equal to it. Of a null it is null. */
  record Less(String column, ValueOrder order, Object literal, boolean orEqual) implements OfColumn {
    @Override
    public int outcomes(ColumnValues values) {
      int outcomes = values.nulls() ? Outcomes.NULL : 0;
      if (values.nans()) {
        outcomes |= order == ValueOrder.DOUBLES ? between(Double.NaN, Double.NaN) : Outcomes.of(true, true);
      }
      if (values.others()) {
        outcomes |= values.bounded() ? between(values.low(), values.high()) : Outcomes.of(true, true);
      }
      return outcomes;
    }

    private int between(Object low, Object high) {
      return Outcomes.of(holds(low), !holds(high));
    }

    private boolean holds(Object value) {
      int sign = order.compare(value, literal);
      return sign < 0 || orEqual && sign == 0;
    }
  }

  /**
   * Whether a value is one of some literals. With a null among them ({@code orNull}) it is true or null.
   *
   * @param literals ascending, none of them null
   */
  record OneOf(String column, ValueOrder order, List<Object> literals, boolean orNull) implements OfColumn {
    @Override
    public int outcomes(ColumnValues values) {
      int miss = orNull ? Outcomes.NULL : Outcomes.FALSE;
      int unknown = literals.isEmpty() ? miss : miss | Outcomes.TRUE;
      int outcomes = 0;
      if (values.nulls()) {
        outcomes |= literals.isEmpty() ? miss : Outcomes.NULL;
      }
      if (values.nans()) {
        outcomes |= order == ValueOrder.DOUBLES ? between(Double.NaN, Double.NaN, miss) : unknown;
      }
      if (values.others()) {
        outcomes |= values.bounded() ? between(values.low(), values.high(), miss) : unknown;
      }
      return outcomes;
    }

    private int between(Object low, Object high, int miss) {
      int place = Collections.binarySearch(literals, low, order::compare);
      int next = place < 0 ? -place - 1 : place;
      boolean hit = next < literals.size() && order.compare(literals.get(next), high) <= 0;
      boolean always = place >= 0 && order.compare(low, high) == 0;
      return (hit ? Outcomes.TRUE : 0) | (always ? 0 : miss);
    }

    /** A null among the literals is equal to nothing. */
    @Override
    public Lookup lookup() {
      return new Lookup.Keys(column, order, literals);
    }
  }

  /**
   * Whether a text starts or ends with another, or contains it: known where all rows have the same text.
   *
   * @param kind STARTS_WITH, ENDS_WITH or CONTAINS
   */
  record Part(String column, String kind, UTF8String part) implements OfColumn {
    @Override
    public int outcomes(ColumnValues values) {
      int outcomes = values.nulls() ? Outcomes.NULL : 0;
      if (!values.others()) {
        return outcomes;
      }
      if (values.bounded()) {
        UTF8String low = (UTF8String) values.low();
        UTF8String high = (UTF8String) values.high();
        if (low.binaryCompare(high) == 0) {
          return outcomes | Outcomes.of(holds(low), !holds(low));
        }
        boolean isAbove = low.binaryCompare(part) > 0 && !low.startsWith(part);
        if (kind.equals("STARTS_WITH") && (high.binaryCompare(part) < 0 || isAbove)) {
          return outcomes | Outcomes.FALSE;
        }
      }
      return outcomes | Outcomes.of(true, true);
    }

    private boolean holds(UTF8String text) {
      return switch (kind) {
        case "STARTS_WITH" -> text.startsWith(part);
        case "ENDS_WITH" -> text.endsWith(part);
        default -> text.contains(part);
      };
    }
  }
}
