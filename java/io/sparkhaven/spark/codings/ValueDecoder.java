package io.sparkhaven.spark.codings;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/** Makes a value of the bytes that a codec wrote. Integers in them are big-endian, whatever the order of the file. */
public interface ValueDecoder {

  /**
   * Puts the value of bytes [from, from + length) into a row of a vector, or null where they mean null.
   *
   * @throws DamagedValue the bytes stand for no value of the codec
   * @throws RefusedValue the value has no form in Spark by the options of the read
   */
  void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row)
      throws DamagedValue, RefusedValue;
}
