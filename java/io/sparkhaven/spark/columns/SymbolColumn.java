package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.CommittedFile;
import io.sparkhaven.spark.pushdown.ColumnCondition;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.BitSet;

/** Numbers of symbols in a {@code .dat} file, i4 a row, as the texts of a dictionary. */
final class SymbolColumn extends LocationColumn {
  private static final int MOST_TESTED = 1 << 20; // texts are compared for less than reading the rows costs
  private static final int MOST_FOR_FEW = 1 << 14; // the same where all ranges of rows are short
  private static final int NULL = Integer.MIN_VALUE;

  private final CommittedFile file;
  private final Dictionary dictionary;
  private final ByteBuffer data;
  private final int[] numbers; // null is the one behind all symbols
  private BitSet matching; // numbers for which all conditions may be true; null: there are no conditions

  /** {@code numbers}: room for those of a batch. */
  SymbolColumn(CommittedFile file, Dictionary dictionary, int[] numbers) {
    super(PickedVector.ofNumbers(dictionary, numbers), file);
    this.file = file;
    this.dictionary = dictionary;
    this.data = ByteBuffer.allocate(4 * numbers.length).order(ByteOrder.LITTLE_ENDIAN);
    this.numbers = numbers;
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(4 * first, data.clear().limit(4 * rows));
    boolean nulls = dictionary.hasNull();
    for (int row = 0; row < rows; row++) {
      int number = data.getInt(4 * row);
      if (number < 0 || number >= dictionary.size()) {
        if (number != NULL) {
          throw ReadFailure.damaged(
              "row has a symbol that is not in the table",
              file.path() + ", row " + (first + row),
              "0 to " + (dictionary.size() - 1) + ", or null",
              number);
        }
        nulls = true;
        number = dictionary.size();
      }
      numbers[row] = number;
    }
    ((PickedVector) vector()).setNulls(nulls);
  }

  @Override
  public boolean narrow(ColumnCondition condition) {
    if (matching == null && dictionary.size() > (numbers.length < MOST_ROWS ? MOST_FOR_FEW : MOST_TESTED)) {
      return true;
    }
    BitSet before = matching;
    matching = new BitSet(dictionary.size() + 1);
    for (int number = 0; number <= dictionary.size(); number++) {
      boolean asked = before == null || before.get(number);
      matching.set(number, asked && condition.mayBeTrue(dictionary.text(number)));
    }
    return !matching.isEmpty();
  }

  @Override
  public boolean mayMatch(int rows) {
    for (int row = 0; matching != null && row < rows; row++) {
      if (matching.get(numbers[row])) {
        return true;
      }
    }
    return matching == null;
  }
}
