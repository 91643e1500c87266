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
  private final PredicateReader reader;
  private final Set<String> partitioning = new LinkedHashSet<>();
  private final List<RowTest> tests = new ArrayList<>();
  private final List<ColumnCondition> conditions = new ArrayList<>();
  private final List<Predicate> used = new ArrayList<>();
  private final List<Predicate> remaining = new ArrayList<>();
  private boolean known = true; // what all of them mean

  public PushedFilters(Plan plan) {
    this.plan = plan;
    this.reader = new PredicateReader(plan.columns());
    for (PlannedColumn column : plan.columns()) {
      if (column.partitioning()) {
        partitioning.add(column.name());
      }
    }
  }

  /** Takes filters, all of which must be true; those that Spark must still apply. */
  public Predicate[] push(Predicate[] predicates) {
    for (Predicate predicate : predicates) {
      RowTest test = reader.read(predicate);
      Set<String> names = new LinkedHashSet<>();
      test.addColumns(names);
      boolean consumed = test.exact() && partitioning.containsAll(names);
      known &= test.exact();
      if (consumed || !names.isEmpty()) {
        tests.add(test);
        used.add(predicate);
      }
      if (!consumed) {
        remaining.add(predicate);
        addCondition(test, names);
      }
    }
    return remaining.toArray(Predicate[]::new);
  }

  private void addCondition(RowTest test, Set<String> names) {
    for (PlannedColumn column : plan.columns()) {
      if (names.size() == 1 && names.contains(column.name()) && hasSymbols(column)) {
        conditions.add(new ColumnCondition(column.name(), test));
      }
    }
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

  /** All of them, to be applied to rows instead of by Spark; null: not all of them are known. */
  public RowFilter rows() {
    return known ? new RowFilter(tests) : null;
  }

  /** Whether Spark applies none itself. */
  public boolean exact() {
    return remaining.isEmpty();
  }

  /** The slices of the plan that may have rows of the query, with the rows that may be. */
  public List<PlannedSlice> slices() {
    return tests.isEmpty() ? plan.slices() : new SliceFilter(tests, plan.columns()).narrowed(plan.slices());
  }
}
