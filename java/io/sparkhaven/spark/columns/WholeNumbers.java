package io.sparkhaven.spark.columns;

/** A batch of whole numbers, all of which can be had at once. */
public interface WholeNumbers {
  /** What stands for null. */
  long NULL = Long.MIN_VALUE;

  /** The numbers of the first rows, {@link #NULL} for null. */
  void copy(int rows, long[] into);
}
