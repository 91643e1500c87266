package io.sparkhaven.spark.plan;

/** The file of a plan is cut, changed, or of another release. The data of the table are not affected. */
public final class DamagedPlan extends RuntimeException {
  private static final long serialVersionUID = 1;

  DamagedPlan(String what, Object where, Object expected, Object actual) {
    super(
        "the plan of a read is damaged: "
            + what
            + "\n  where: " + where
            + "\n  expected: " + expected
            + "\n  found: " + actual
            + "\n  to do: read the table again. Python and the jar must be of one release of sparkhaven");
  }

  DamagedPlan(Object where, Exception cause) {
    this(cause.toString(), where, "the parts that its format names", "others");
    initCause(cause);
  }
}
