package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.CommittedFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Comparator;
import java.util.stream.IntStream;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** Sets of texts: 64 bits a row, bit b for symbol b of the location; texts in the order of UTF-16 units. */
final class SetColumn extends LocationColumn {
  private static final int MOST_SYMBOLS = 64;

  private final CommittedFile file;
  private final int[] order; // bits in the order of their texts
  private final byte[][] texts; // by bit; null: a symbol without bytes
  private final int count;
  private final ByteBuffer words;
  private final OnHeapColumnVector vector;

  /** {@code vector}: with room for {@code rows}, the most of a batch. */
  SetColumn(CommittedFile file, Dictionary dictionary, OnHeapColumnVector vector, int rows) {
    super(vector, file);
    this.vector = vector;
    this.file = file;
    count = dictionary.size();
    texts = new byte[Math.min(count, MOST_SYMBOLS)][];
    String[] names = new String[texts.length];
    for (int bit = 0; bit < texts.length; bit++) {
      UTF8String text = dictionary.text(bit);
      texts[bit] = text == null ? null : text.getBytes();
      names[bit] = text == null ? "" : text.toString();
    }
    order =
        IntStream.range(0, texts.length)
            .boxed()
            .sorted(Comparator.comparing(bit -> names[bit]))
            .mapToInt(Integer::intValue)
            .toArray();
    words = ByteBuffer.allocate(8 * rows).order(ByteOrder.LITTLE_ENDIAN);
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(8 * first, words.clear().limit(8 * rows));
    vector.reset();
    WritableColumnVector members = vector.arrayData();
    long outside = count < MOST_SYMBOLS ? -1L << count : 0; // bits of no symbol
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
      for (int index = 0; word != 0 && index < order.length; index++) {
        byte[] text = texts[order[index]];
        if ((word >>> order[index] & 1) == 0) {
          continue;
        }
        if (text == null) {
          members.appendNull();
        } else {
          members.appendByteArray(text, 0, text.length);
        }
      }
    }
  }
}
