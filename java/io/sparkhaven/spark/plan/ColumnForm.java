package io.sparkhaven.spark.plan;

import java.io.Serializable;

/**
 * How files have the values of a column, and the bytes that such a file begins with.
 *
 * @param type name of the type, as {@code store/types/datatypes.py} has it
 * @param storage FIXED, SYMBOL, SET or BLOB
 * @param width bytes of an entry in {@code .dat}
 * @param charset of texts, as the schema spells it
 * @param nullChar the unit that means null, of chars; else -1
 * @param coding words of the decoder of its values ({@code Decoders}); null: they are plain, or sets
 * @param domain what a value is, for people; null of plain ones
 * @param prefix begin of a file whose column has no grouping; zeros follow up to the first row
 * @param overflow begin of a file whose grouping has a file of its own; zeros follow up to the first row
 * @param dataOffset byte of the first row
 * @param grouping how keys stand in a grouping inside of the begin; null: such a column has none
 */
public record ColumnForm(
    String type,
    String storage,
    int width,
    String charset,
    int nullChar,
    String coding,
    String domain,
    byte[] prefix,
    byte[] overflow,
    int dataOffset,
    GroupingKeys grouping)
    implements Serializable {

  /**
   * How keys stand in the grouping inside of the begin of a {@code .dat} file, which is a Java stream.
   *
   * @param before how many things have a number in the stream before the map of the grouping
   * @param head what stands before the value of a boxed key where one comes first; nothing of texts
   * @param declared whether the class of the keys is declared there
   */
  public record GroupingKeys(int before, byte[] head, boolean declared) implements Serializable {}

  /** Whether files have another null than that of chars now, which statistics know nothing of. */
  public boolean hasOtherNull() {
    return nullChar >= 0 && nullChar != 0xFFFF;
  }

  /** Ends of the names of its files, {@code .dat} first. */
  public String[] suffixes() {
    return switch (storage) {
      case "SYMBOL", "SET" -> new String[] {".dat", ".sym", ".sym.bytes"};
      case "BLOB" -> new String[] {".dat", ".bytes"};
      default -> new String[] {".dat"};
    };
  }
}
