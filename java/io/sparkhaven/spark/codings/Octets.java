package io.sparkhaven.spark.codings;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/** Bytes of one length; where they may be null 00 stands before them, and FF, then zeros, is null. */
final class Octets implements ValueDecoder {
  private final int size;
  private final boolean nullable;

  Octets(int size, boolean nullable) {
    this.size = size;
    this.nullable = nullable;
  }

  @Override
  public void decode(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws DamagedValue {
    if (!nullable) {
      into.putByteArray(row, bytes, from, size);
    } else if (bytes[from] == 0) {
      into.putByteArray(row, bytes, from + 1, size);
    } else if (bytes[from] == -1 && zeros(bytes, from + 1)) {
      into.putNull(row);
    } else {
      throw new DamagedValue();
    }
  }

  private boolean zeros(byte[] bytes, int from) {
    for (int index = from; index < from + size; index++) {
      if (bytes[index] != 0) {
        return false;
      }
    }
    return true;
  }
}
