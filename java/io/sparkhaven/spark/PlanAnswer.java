package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.Plan;

/**
 * Who reads the batches of a table.
 *
 * @param plan what Java reads; null: Python reads
 * @param reason why Python reads; empty if nobody was asked
 */
record PlanAnswer(Plan plan, String reason) {
  /** Nobody was asked. */
  static final PlanAnswer NONE = new PlanAnswer(null, "");
}
