package io.sparkhaven.spark.codings;

/** Bytes that stand for no value of a codec; who has the row and the file says so. */
public final class DamagedValue extends Exception {
  private static final long serialVersionUID = 1;

  public DamagedValue() {
    super("bytes stand for no value of the column's codec", null, false, false);
  }
}
