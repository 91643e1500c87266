package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.codings.DamagedValue;
import io.sparkhaven.spark.pushdown.ValueOrder;
import java.io.Closeable;
import java.io.IOException;

/** The keys of one column of an index, in the order in which they are stored: null first, NaN last. */
abstract class IndexKeys implements Closeable {
  /** Number of keys. */
  abstract long size();

  /** Below, at or above 0, as a key is less than a literal in the form of {@link #literal}, equal or greater. */
  final int compare(long number, Object literal) throws IOException, DamagedValue {
    return compare(key(number), literal);
  }

  /** A key in the form of {@link #literal}; null: it is null. Keys that differ may be the same in it. */
  abstract Object key(long number) throws IOException, DamagedValue;

  /** A key as it is stored: equal to another one only where both are the same key. */
  abstract Object stored(long number) throws IOException, DamagedValue;

  /** The literal of a query, of the column's {@link ValueOrder}, as keys compare with it; null: no key is equal. */
  abstract Object literal(Object value);

  abstract int order(Object left, Object right);

  private int compare(Object left, Object right) {
    if (left == null || right == null) {
      return Boolean.compare(left != null, right != null);
    }
    return order(left, right);
  }

  /** The first of keys [from, to) that is at least a literal, or ({@code above}) greater than it; else {@code to}. */
  final long first(Object literal, boolean above, long from, long to) throws IOException, DamagedValue {
    long low = from;
    long high = to;
    while (low < high) {
      long middle = low + high >>> 1;
      int sign = compare(middle, literal);
      if (sign < 0 || above && sign == 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** The end of the entries from one on, before {@code to}, that have its key. Keys ascend up to there. */
  final long end(long from, long to) throws IOException, DamagedValue {
    Object wanted = stored(from);
    long low = from + 1;
    long high = to;
    while (low < high) {
      long middle = low + high >>> 1;
      if (wanted.equals(stored(middle))) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** Whether no key is less than the one before it. */
  final boolean ascend() throws IOException, DamagedValue {
    Object before = null;
    for (long number = 0; number < size(); number++) {
      Object key = key(number);
      if (compare(before, key) > 0) {
        return false;
      }
      before = key;
    }
    return true;
  }
}
