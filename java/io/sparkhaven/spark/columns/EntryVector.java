package io.sparkhaven.spark.columns;

import java.io.IOException;
import org.apache.spark.sql.types.DataType;

/** Entries of fixed width as a file has them, little-endian. The null of a type is one of its values. */
abstract class EntryVector extends PlainVector {
  /** Entries of the batch, from its first row on. */
  final byte[] data;

  /** Whether an entry may be null; else the null of the type is a value like others. */
  final boolean nulls;

  EntryVector(DataType type, byte[] data, boolean nulls) {
    super(type);
    this.data = data;
    this.nulls = nulls;
  }

  /** Looks at a new batch of so many rows. */
  void settle(long first, int rows) throws IOException {}

  @Override
  public final boolean hasNull() {
    return nulls;
  }

  @Override
  public final int numNulls() {
    return nulls ? 1 : 0;
  }
}
