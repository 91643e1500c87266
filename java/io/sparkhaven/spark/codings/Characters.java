package io.sparkhaven.spark.codings;

import io.sparkhaven.spark.errors.ReadFailure;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataTypes;

/** UTF-16 units as texts of one character. */
public final class Characters {
  /** The number of null among {@link #TEXTS}. */
  public static final int NULL = 1 << 16;

  /** The text of each unit, then null. */
  public static final OnHeapColumnVector TEXTS = new OnHeapColumnVector(NULL + 1, DataTypes.StringType);

  static {
    for (int unit = 0; unit < NULL; unit++) {
      TEXTS.putByteArray(unit, String.valueOf((char) unit).getBytes(StandardCharsets.UTF_8));
    }
    TEXTS.putNull(NULL);
  }

  private Characters() {}

  /** The number of the text of a unit. ReadFailure: it is half of a character, which no text has alone. */
  public static int number(int unit, String column) throws ReadFailure {
    if (Character.isSurrogate((char) unit)) {
      throw ReadFailure.mismatch(
          "a char is half of a character",
          "column " + column,
          "a character of one UTF-16 unit",
          "the surrogate U+%04X".formatted(unit),
          "read it with option char=int");
    }
    return unit;
  }
}
