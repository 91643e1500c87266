package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/**
 * The filters of one query. Those of the partition value alone are applied to whole slices, exactly. All others only
 * leave out rows for which they cannot be true, and Spark still applies them.
 */
public final class PushedFilters {
  private final Plan plan;
  private final List<RowTest> tests = new ArrayList<>();
  private final List<ColumnCondition> conditions = new ArrayList<>();
  private final List<Predicate> used = new ArrayList<>();
  private final List<Predicate> remaining = new ArrayList<>();
  private boolean known = true;

  public PushedFilters(Plan plan) {
    this.plan = plan;
  }

  /** Takes filters, all of which must be true; those that Spark must still apply. */
  public Predicate[] push(Predicate[] predicates) {
    PredicateReader reader = new PredicateReader(plan);
    for (Predicate predicate : predicates) {
      RowTest test = reader.read(predicate);
      Set<String> names = new LinkedHashSet<>();
      test.addColumns(names);
      boolean consumed = test.exact() && names.stream().allMatch(name -> plan.column(name).partitioning());
      known &= test.exact();
      if (consumed || !names.isEmpty()) {
        tests.add(test);
        used.add(predicate);
      }
      if (!consumed) {
        remaining.add(predicate);
        names.stream()
            .filter(name -> names.size() == 1 && hasSymbols(plan.column(name)))
            .forEach(name -> conditions.add(new ColumnCondition(name, test)));
      }
    }
    return remaining.toArray(Predicate[]::new);
  }

  private static boolean hasSymbols(PlannedColumn column) {
    return !column.partitioning()
        && ValueOrder.of(column) == ValueOrder.TEXTS
        && column.form().storage().equals("SYMBOL");
  }

  /** Conditions of columns of symbols, of which tasks leave out batches for which they cannot be true. */
  public List<ColumnCondition> conditions() {
    return conditions;
  }

  /** What of those that Spark must still apply an index answers; null: nothing. */
  public Lookup lookup() {
    return Lookup.all(tests.stream().map(RowTest::lookup).toList());
  }

  /** Those that leave out rows. */
  public Predicate[] used() {
    return used.toArray(Predicate[]::new);
  }

  /** Names of the columns that they ask. */
  public Set<String> columns() {
    Set<String> names = new LinkedHashSet<>();
    tests.forEach(test -> test.addColumns(names));
    return names;
  }

  /** All of them, to be applied instead of by Spark to the rows of batches that have these columns, if {@link #known}. */
  public RowFilter over(PlannedColumn[] batches) {
    return new RowFilter(tests, batches);
  }

  /** Whether it is known what all of them mean. */
  public boolean known() {
    return known;
  }

  /** Whether Spark applies none itself. */
  public boolean exact() {
    return remaining.isEmpty();
  }

  /** The slices of the plan that may have rows of the query, with the rows that may be. */
  public List<PlannedSlice> slices() {
    return tests.isEmpty() ? plan.slices() : new SliceFilter(plan, tests).narrowed();
  }
}
