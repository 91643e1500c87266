package io.sparkhaven.spark.pushdown;

/** What a condition may be for some rows: true, false or null, as bits. A set may be too large, never too small. */
final class Outcomes {
  static final int TRUE = 1;
  static final int FALSE = 2;
  static final int NULL = 4;
  static final int ANY = TRUE | FALSE | NULL;

  private Outcomes() {}

  static int of(boolean mayBeTrue, boolean mayBeFalse) {
    return (mayBeTrue ? TRUE : 0) | (mayBeFalse ? FALSE : 0);
  }

  static int not(int outcomes) {
    return outcomes & NULL | ((outcomes & TRUE) != 0 ? FALSE : 0) | ((outcomes & FALSE) != 0 ? TRUE : 0);
  }

  static int and(int left, int right) {
    int both = left & right & TRUE | (left | right) & FALSE;
    boolean unknown = (left & NULL) != 0 && (right & (TRUE | NULL)) != 0;
    unknown |= (right & NULL) != 0 && (left & (TRUE | NULL)) != 0;
    return left == 0 || right == 0 ? 0 : both | (unknown ? NULL : 0);
  }

  static int or(int left, int right) {
    return not(and(not(left), not(right)));
  }
}
