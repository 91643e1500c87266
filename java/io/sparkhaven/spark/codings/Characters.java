package io.sparkhaven.spark.codings;

import io.sparkhaven.spark.errors.ReadFailure;
import org.apache.spark.unsafe.types.UTF8String;

/** UTF-16 units as texts of one character. */
public final class Characters {
  /** The number of null among {@link #TEXTS}. */
  public static final int NULL = 1 << 16;

  /** The text of each unit, then null. */
  public static final UTF8String[] TEXTS = new UTF8String[NULL + 1];

  static {
    for (int unit = 0; unit < NULL; unit++) {
      TEXTS[unit] = UTF8String.fromString(String.valueOf((char) unit));
    }
  }

  private Characters() {}

  /** The number of the text of a unit, which is the unit. ReadFailure: it is half of a character, which no text has alone. */
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
