package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Comparator;
import java.util.stream.IntStream;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** Sets of texts: 64 bits a row, bit b for symbol b of the location; texts in the order of UTF-16 units. */
final class SetColumn extends LocationColumn {
  private static final int MOST_SYMBOLS = 64;

  private final CommittedFile file;
  private final byte[][] texts; // in order, with the bits of the same index; null: a symbol without bytes
  private final long[] bits;
  private final long outside; // bits of no symbol
  private final int count;
  private final ByteBuffer words;
  private final OnHeapColumnVector vector;

  SetColumn(CommittedFile file, UTF8String[] symbols, DataType type, int rows) {
    this.file = file;
    count = symbols.length;
    outside = count < MOST_SYMBOLS ? -1L << count : 0;
    int[] order =
        IntStream.range(0, Math.min(count, MOST_SYMBOLS))
            .boxed()
            .sorted(Comparator.comparing(bit -> symbols[bit] == null ? "" : symbols[bit].toString()))
            .mapToInt(Integer::intValue)
            .toArray();
    texts = new byte[order.length][];
    bits = new long[order.length];
    for (int index = 0; index < order.length; index++) {
      bits[index] = 1L << order[index];
      texts[index] = symbols[order[index]] == null ? null : symbols[order[index]].getBytes();
    }
    words = ByteBuffer.allocate(8 * rows).order(ByteOrder.LITTLE_ENDIAN);
    vector = new OnHeapColumnVector(rows, type);
  }

  @Override
  public ColumnVector vector() {
    return vector;
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(8 * first, words.clear().limit(8 * rows));
    vector.reset();
    WritableColumnVector members = vector.arrayData();
    for (int row = 0; row < rows; row++) {
      long word = words.getLong(8 * row);
      if ((word & outside) != 0) {
        throw ReadFailure.damaged(
            "set has a bit of no symbol",
            file.path() + ", row " + (first + row),
            count == 0 ? "0" : "bits 0 to " + (count - 1),
            "0x" + Long.toHexString(word));
      }
      vector.putArray(row, members.getElementsAppended(), Long.bitCount(word));
      for (int index = 0; word != 0 && index < bits.length; index++) {
        if ((word & bits[index]) == 0) {
          continue;
        }
        if (texts[index] == null) {
          members.appendNull();
        } else {
          members.appendByteArray(texts[index], 0, texts[index].length);
        }
      }
    }
  }

  @Override
  public void close() throws IOException {
    file.close();
  }
}
