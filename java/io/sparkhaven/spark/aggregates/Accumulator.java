package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.columns.Dictionary;
import io.sparkhaven.spark.columns.PickedVector;
import io.sparkhaven.spark.pushdown.ValueOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** One aggregate of a query, by group. */
abstract class Accumulator {
  /** A part of a sum that does not fit into 64 bits. Spark adds the parts, and says what it says then. */
  record Part(int group, long sum) {}

  /** {@code mixed}: rows of a batch may have several groups, or be left out. */
  static Accumulator of(AskedAggregates.Function function, boolean mixed) {
    boolean greatest = function.kind() == AskedAggregates.Kind.GREATEST;
    return switch (function.kind()) {
      case ROWS, VALUES -> new Counts();
      case SUM -> function.isSumOfWholeNumbers() ? new LongSums() : new DoubleSums();
      case LEAST, GREATEST ->
          mixed || !function.isOfTexts()
              ? new Extremes(ValueOrder.of(function.column()), function.type(), greatest)
              : new TextExtremes(greatest);
    };
  }

  /** Makes room for so many groups. */
  abstract void reserve(int groups);

  /**
   * Adds the rows of a batch.
   *
   * @param values of the column that is aggregated; null: rows are counted
   * @param groups by row; below 0: the row is left out
   */
  abstract void add(ColumnVector values, int rows, int[] groups);

  /** What a group has, in the form that Spark has inside; null: no value was added. */
  abstract Object result(int group);

  /** What stands in a row that another aggregate needs for itself, and adds nothing. */
  Object nothing() {
    return null;
  }

  /** Parts of results that {@link #result} does not have, since both together are too large. */
  List<Part> overflow() {
    return List.of();
  }

  /** Numbers of rows, or of values that are not null. */
  private static final class Counts extends Accumulator {
    private long[] counts = {};

    @Override
    void reserve(int groups) {
      counts = groups > counts.length ? Arrays.copyOf(counts, 2 * groups) : counts;
    }

    @Override
    void add(ColumnVector values, int rows, int[] groups) {
      for (int row = 0; row < rows; row++) {
        if (groups[row] >= 0 && (values == null || !values.isNullAt(row))) {
          counts[groups[row]]++;
        }
      }
    }

    @Override
    Object result(int group) {
      return counts[group];
    }

    @Override
    Object nothing() {
      return 0L;
    }
  }

  /** Sums of whole numbers. */
  private static final class LongSums extends Accumulator {
    private final List<Part> overflow = new ArrayList<>();
    private long[] sums = {};
    private boolean[] filled = {};

    @Override
    void reserve(int groups) {
      if (groups > sums.length) {
        sums = Arrays.copyOf(sums, 2 * groups);
        filled = Arrays.copyOf(filled, 2 * groups);
      }
    }

    @Override
    void add(ColumnVector values, int rows, int[] groups) {
      int bytes = values.dataType().defaultSize();
      boolean nulls = values.hasNull();
      for (int row = 0; row < rows; row++) {
        if (groups[row] >= 0 && !(nulls && values.isNullAt(row))) {
          long number =
              switch (bytes) {
                case 1 -> values.getByte(row);
                case 2 -> values.getShort(row);
                case 4 -> values.getInt(row);
                default -> values.getLong(row);
              };
          add(groups[row], number);
        }
      }
    }

    private void add(int group, long number) {
      long sum = sums[group] + number;
      if (((sums[group] ^ sum) & (number ^ sum)) < 0) {
        overflow.add(new Part(group, sums[group]));
        sum = number;
      }
      sums[group] = sum;
      filled[group] = true;
    }

    @Override
    Object result(int group) {
      return filled[group] ? (Object) sums[group] : null;
    }

    @Override
    List<Part> overflow() {
      return overflow;
    }
  }

  /** Sums of floating-point numbers, row after row, as Spark adds them. */
  private static final class DoubleSums extends Accumulator {
    private double[] sums = {};
    private boolean[] filled = {};

    @Override
    void reserve(int groups) {
      if (groups > sums.length) {
        sums = Arrays.copyOf(sums, 2 * groups);
        filled = Arrays.copyOf(filled, 2 * groups);
      }
    }

    @Override
    void add(ColumnVector values, int rows, int[] groups) {
      boolean isFloat = values.dataType().equals(DataTypes.FloatType);
      boolean nulls = values.hasNull();
      for (int row = 0; row < rows; row++) {
        if (groups[row] >= 0 && !(nulls && values.isNullAt(row))) {
          sums[groups[row]] += isFloat ? values.getFloat(row) : values.getDouble(row);
          filled[groups[row]] = true;
        }
      }
    }

    @Override
    Object result(int group) {
      return filled[group] ? (Object) sums[group] : null;
    }
  }

  /** Least or greatest values of any type that has an order. Of equal ones the first stays. */
  private static final class Extremes extends Accumulator {
    private final ValueOrder order;
    private final DataType type;
    private final boolean greatest;
    private Object[] extremes = {};

    Extremes(ValueOrder order, DataType type, boolean greatest) {
      this.order = order;
      this.type = type;
      this.greatest = greatest;
    }

    @Override
    void reserve(int groups) {
      extremes = groups > extremes.length ? Arrays.copyOf(extremes, 2 * groups) : extremes;
    }

    @Override
    void add(ColumnVector values, int rows, int[] groups) {
      for (int row = 0; row < rows; row++) {
        if (groups[row] >= 0 && !values.isNullAt(row)) {
          Object value = ValueOrder.internal(values, row);
          Object extreme = extremes[groups[row]];
          int sign = extreme == null ? 0 : order.compare(order.of(value, type), order.of(extreme, type));
          if (extreme == null || (greatest ? sign > 0 : sign < 0)) {
            extremes[groups[row]] = value;
          }
        }
      }
    }

    @Override
    Object result(int group) {
      return extremes[group];
    }
  }

  /**
   * Least or greatest texts in the order of bytes, where all rows of a batch have one group. Of texts with numbers it
   * remembers which numbers rows have, and compares each text once a location.
   */
  private static final class TextExtremes extends Accumulator {
    private final boolean greatest;
    private UTF8String[] extremes = {};
    private Dictionary texts; // of the location that is read
    private int group; // of its rows
    private BitSet seen = new BitSet();

    TextExtremes(boolean greatest) {
      this.greatest = greatest;
    }

    @Override
    void reserve(int groups) {
      extremes = groups > extremes.length ? Arrays.copyOf(extremes, 2 * groups) : extremes;
    }

    @Override
    void add(ColumnVector values, int rows, int[] groups) {
      PickedVector numbered = PickedVector.numbered(values);
      if (numbered == null || numbered.texts() != texts || groups[0] != group) {
        compareSeen();
        texts = numbered == null ? null : numbered.texts();
        group = groups[0];
      }
      boolean nulls = values.hasNull();
      for (int row = 0; row < rows; row++) {
        if (nulls && values.isNullAt(row)) {
          continue;
        }
        if (numbered == null) {
          compare(values.getUTF8String(row));
        } else {
          seen.set(numbered.number(row));
        }
      }
    }

    private void compareSeen() {
      seen.stream().forEach(number -> compare(texts.text(number)));
      seen.clear();
    }

    /** Keeps bytes of its own: those of a batch are overwritten by the next one. */
    private void compare(UTF8String text) {
      int sign = extremes[group] == null ? 0 : text.binaryCompare(extremes[group]);
      if (extremes[group] == null || (greatest ? sign > 0 : sign < 0)) {
        extremes[group] = text.copy();
      }
    }

    @Override
    Object result(int asked) {
      compareSeen();
      return extremes[asked];
    }
  }
}
