package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.codings.DamagedValue;
import io.sparkhaven.spark.codings.Decoders;
import io.sparkhaven.spark.codings.ValueDecoder;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.plan.ColumnForm;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Decodes the values of a column in one location.
 *
 * @param domain what a value is, for people
 * @param path of the {@code .dat} file
 */
record CodedValues(ValueDecoder decoder, String domain, Path path) {
  private static final int SHOWN = 40; // bytes of a damaged value

  /** null: the form has plain values. */
  static CodedValues of(ColumnForm form, String column, Path path) {
    return form.coding() == null ? null : new CodedValues(Decoders.of(form.coding(), column), form.domain(), path);
  }

  /**
   * Puts the value of bytes [from, from + length) into a row of the batch.
   *
   * @param number the row in the location
   * @throws ReadFailure the bytes stand for no value, or Spark has no form for it
   */
  void put(byte[] bytes, int from, int length, WritableColumnVector into, int row, long number) throws IOException {
    try {
      decoder.put(bytes, from, length, into, row);
    } catch (DamagedValue damaged) {
      byte[] shown = Arrays.copyOfRange(bytes, from, from + Math.min(length, SHOWN));
      throw ReadFailure.damaged(
          damaged.getMessage(), path + ", row " + number, domain, HexFormat.ofDelimiter(" ").formatHex(shown));
    }
  }
}
