package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.BitSet;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Numbers of symbols in a {@code .dat} file, i4 a row, as the texts of a dictionary. */
final class SymbolColumn extends LocationColumn {
  private static final int MOST_TESTED = 1 << 20; // texts are compared for less than reading the rows costs
  private static final int MOST_FOR_FEW = 1 << 14; // the same where all ranges of rows are short

  private final CommittedFile file;
  private final Dictionary dictionary;
  private final Symbols vector;
  private final int mostTested;
  private BitSet matching; // numbers of symbols for which all conditions may be true; null: there are none
  private boolean nullMatches = true;

  SymbolColumn(CommittedFile file, Dictionary dictionary, int rows) {
    this.file = file;
    this.dictionary = dictionary;
    this.mostTested = rows < MOST_ROWS ? MOST_FOR_FEW : MOST_TESTED;
    byte[] data = new byte[4 * rows];
    this.vector = dictionary.texts() == null ? new Many(dictionary, data) : new Few(dictionary, data);
  }

  @Override
  public ColumnVector vector() {
    return vector;
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(4 * first, ByteBuffer.wrap(vector.data, 0, 4 * rows));
    boolean missing = false;
    for (int row = 0; row < rows; row++) {
      int number = vector.number(row);
      if (number < 0 || number >= dictionary.size()) {
        if (number != Integer.MIN_VALUE) {
          throw outside(first + row, number);
        }
        missing = true;
      }
    }
    vector.nulls = missing || dictionary.hasNull();
  }

  private ReadFailure outside(long row, int number) {
    return ReadFailure.damaged(
        "row has a symbol that is not in the table",
        file.path() + ", row " + row,
        "0 to " + (dictionary.size() - 1) + ", or null",
        number);
  }

  @Override
  public boolean narrow(TextCondition condition) {
    if (matching == null && dictionary.size() > mostTested) {
      return true;
    }
    BitSet before = matching;
    matching = new BitSet(dictionary.size());
    for (int number = 0; number < dictionary.size(); number++) {
      boolean asked = before == null || before.get(number);
      if (asked && condition.mayBeTrue(dictionary.isNull(number) ? null : dictionary.text(number))) {
        matching.set(number);
      }
    }
    nullMatches &= condition.mayBeTrue(null);
    return nullMatches || !matching.isEmpty();
  }

  @Override
  public boolean mayMatch(int rows) {
    if (matching == null) {
      return true;
    }
    for (int row = 0; row < rows; row++) {
      int number = vector.number(row);
      if (number == Integer.MIN_VALUE ? nullMatches : matching.get(number)) {
        return true;
      }
    }
    return false;
  }

  @Override
  public void close() throws IOException {
    file.close();
  }

  private abstract static class Symbols extends PlainVector implements NumberedTexts {
    final Dictionary dictionary;
    final byte[] data;
    boolean nulls;

    Symbols(Dictionary dictionary, byte[] data) {
      super(DataTypes.StringType);
      this.dictionary = dictionary;
      this.data = data;
    }

    @Override
    public final int number(int row) {
      return Platform.getInt(data, Platform.BYTE_ARRAY_OFFSET + 4L * row);
    }

    @Override
    public final int size() {
      return dictionary.size();
    }

    @Override
    public final UTF8String text(int number) {
      return dictionary.text(number);
    }

    @Override
    public final boolean hasNull() {
      return nulls;
    }
  }

  private static final class Few extends Symbols {
    private final UTF8String[] texts;

    Few(Dictionary dictionary, byte[] data) {
      super(dictionary, data);
      this.texts = dictionary.texts();
    }

    @Override
    public boolean isNullAt(int row) {
      if (!nulls) {
        return false;
      }
      int number = number(row);
      return number == Integer.MIN_VALUE || texts[number] == null;
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return texts[number(row)];
    }
  }

  private static final class Many extends Symbols {
    Many(Dictionary dictionary, byte[] data) {
      super(dictionary, data);
    }

    @Override
    public boolean isNullAt(int row) {
      if (!nulls) {
        return false;
      }
      int number = number(row);
      return number == Integer.MIN_VALUE || dictionary.isNull(number);
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return dictionary.text(number(row));
    }
  }
}
