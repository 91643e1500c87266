package io.sparkhaven.spark.codings;

import java.io.IOException;

/** Bytes that stand for no value of a codec; who has the row and the file says so. */
public final class DamagedValue extends IOException {
  private static final long serialVersionUID = 1;

  public DamagedValue() {
    super("bytes stand for no value of the column's codec");
  }

  /** DamagedValue: they are not sound. */
  public static void unless(boolean sound) throws DamagedValue {
    if (!sound) {
      throw new DamagedValue();
    }
  }

  /** Without a stack: an index tries many values. */
  @Override
  public Throwable fillInStackTrace() {
    return this;
  }
}
