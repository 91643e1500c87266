package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.codings.Characters;
import io.sparkhaven.spark.files.CommittedFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** UTF-16 units in a {@code .dat} file, as texts of one character. */
final class CharColumn extends LocationColumn {
  private static final Dictionary TEXTS = Dictionary.of(Characters.TEXTS);

  private final CommittedFile file;
  private final String column;
  private final int none;
  private final ByteBuffer data;
  private final int[] numbers;

  /** {@code none}: the unit that means null; below 0: none does. */
  CharColumn(CommittedFile file, String column, int none, int[] numbers) {
    super(PickedVector.ofNumbers(TEXTS, numbers), file);
    this.file = file;
    this.column = column;
    this.none = none;
    this.data = ByteBuffer.allocate(2 * numbers.length).order(ByteOrder.LITTLE_ENDIAN);
    this.numbers = numbers;
  }

  @Override
  public void move(long first, int rows) throws IOException {
    file.read(2 * first, data.clear().limit(2 * rows));
    for (int row = 0; row < rows; row++) {
      int unit = data.getChar(2 * row);
      numbers[row] = unit == none ? Characters.NULL : Characters.number(unit, column);
    }
  }
}
