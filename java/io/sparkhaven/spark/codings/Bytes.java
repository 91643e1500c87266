package io.sparkhaven.spark.codings;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/** Bytes as they are: of byte[] by its codecs, and of classes that nobody knows. */
final class Bytes implements ValueDecoder {
  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) {
    into.putByteArray(row, bytes, from, length);
  }
}
