package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.codings.DamagedValue;
import io.sparkhaven.spark.codings.RefusedValue;
import io.sparkhaven.spark.codings.ValueDecoder;
import io.sparkhaven.spark.errors.ReadFailure;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataType;

/** Values of a codec as they are decoded into the vector of a batch. */
final class CodedValues {
  private static final int SHOWN = 40; // bytes of a damaged value

  private final ValueDecoder decoder;
  private final String column;
  private final String domain;
  private final Path path;
  final OnHeapColumnVector vector;

  /**
   * Values of a column.
   *
   * @param domain what a value is, for people
   * @param path of the {@code .dat} file
   * @param rows most rows of a batch
   */
  CodedValues(ValueDecoder decoder, String column, String domain, DataType type, Path path, int rows) {
    this.decoder = decoder;
    this.column = column;
    this.domain = domain;
    this.path = path;
    vector = new OnHeapColumnVector(rows, type);
  }

  /** Begins a batch. */
  void clear() {
    vector.reset();
  }

  /**
   * Puts the value of bytes [from, from + length) into a row of the batch.
   *
   * @param number the row in the location
   * @throws ReadFailure the bytes stand for no value, or Spark has no form for it
   */
  void put(byte[] bytes, int from, int length, int row, long number) throws ReadFailure {
    try {
      decoder.decode(bytes, from, length, vector, row);
    } catch (DamagedValue damaged) {
      byte[] shown = Arrays.copyOfRange(bytes, from, from + Math.min(length, SHOWN));
      throw ReadFailure.damaged(
          damaged.getMessage(), path + ", row " + number, domain, HexFormat.ofDelimiter(" ").formatHex(shown));
    } catch (RefusedValue refused) {
      throw ReadFailure.mismatch(
          refused.getMessage(), "column " + column, refused.expected, refused.value, refused.hint);
    }
  }

  /** Puts null into a row of the batch. */
  void putNull(int row) {
    vector.putNull(row);
  }
}
