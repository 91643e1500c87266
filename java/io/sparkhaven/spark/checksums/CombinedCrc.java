package io.sparkhaven.spark.checksums;

/** CRC-32 of two runs of bytes, one behind the other, of the CRC-32s of both: {@code java.util.zip} begins at 0 only. */
public final class CombinedCrc {
  private static final int POLYNOMIAL = 0xEDB88320;
  private static final int BITS = 32;

  private CombinedCrc() {}

  /**
   * CRC-32 of both runs.
   *
   * @param second of the later run, whose {@code length} bytes are at least 0
   */
  public static int of(int first, int second, long length) {
    int[] operator = new int[BITS]; // what one zero bit does to a CRC, a row for each of its bits
    operator[0] = POLYNOMIAL;
    for (int bit = 1; bit < BITS; bit++) {
      operator[bit] = 1 << bit - 1;
    }
    operator = squared(squared(squared(operator))); // a zero byte
    int crc = first;
    for (long rest = length; rest != 0; rest >>>= 1) {
      if ((rest & 1) != 0) {
        crc = product(operator, crc);
      }
      operator = squared(operator);
    }
    return crc ^ second;
  }

  private static int product(int[] matrix, int vector) {
    int sum = 0;
    int rest = vector;
    for (int row = 0; rest != 0; row++, rest >>>= 1) {
      if ((rest & 1) != 0) {
        sum ^= matrix[row];
      }
    }
    return sum;
  }

  private static int[] squared(int[] matrix) {
    int[] square = new int[BITS];
    for (int row = 0; row < BITS; row++) {
      square[row] = product(matrix, matrix[row]);
    }
    return square;
  }
}
