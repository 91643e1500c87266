package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.columns.NumberedTexts;
import java.util.BitSet;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The least or the greatest text of one column, in the order of bytes. Of texts with numbers it remembers which numbers
 * rows have, and compares each text once a location.
 */
final class TextExtreme {
  private final boolean greatest;
  private UTF8String extreme;
  private NumberedTexts numbered; // of the location that is read
  private BitSet seen;

  TextExtreme(boolean greatest) {
    this.greatest = greatest;
  }

  /** Looks at the rows of a batch. */
  void add(ColumnVector vector, int rows) {
    if (!(vector instanceof NumberedTexts texts)) {
      for (int row = 0; row < rows; row++) {
        if (!vector.isNullAt(row)) {
          compare(vector.getUTF8String(row));
        }
      }
      return;
    }
    if (texts != numbered) {
      compareSeen();
      numbered = texts;
      seen = new BitSet(texts.size());
    }
    boolean nulls = vector.hasNull();
    for (int row = 0; row < rows; row++) {
      if (!nulls || !vector.isNullAt(row)) {
        seen.set(texts.number(row));
      }
    }
  }

  /** The text; null: no row has one. */
  UTF8String result() {
    compareSeen();
    return extreme;
  }

  private void compareSeen() {
    if (numbered != null) {
      seen.stream().forEach(number -> compare(numbered.text(number)));
      numbered = null;
    }
  }

  /** Keeps bytes of its own: those of a batch are overwritten by the next one. */
  private void compare(UTF8String text) {
    int sign = extreme == null ? 0 : text.binaryCompare(extreme);
    if (extreme == null || (greatest ? sign > 0 : sign < 0)) {
      extreme = text.copy();
    }
  }
}
