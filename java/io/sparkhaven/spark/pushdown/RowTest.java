package io.sparkhaven.spark.pushdown;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.function.Function;

/** A condition of a query, as far as it can be asked of statistics. */
interface RowTest extends Serializable {
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

  /** Nothing is known of it. */
  RowTest UNKNOWN = new Always(Outcomes.ANY);

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
}
