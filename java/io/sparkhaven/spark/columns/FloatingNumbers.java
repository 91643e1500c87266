package io.sparkhaven.spark.columns;

/** A batch of floating-point numbers, all of which can be had at once. */
public interface FloatingNumbers {
  /** What stands for null. */
  double NULL = -Double.MAX_VALUE;

  /** The numbers of the first rows, {@link #NULL} for null. */
  void copy(int rows, double[] into);
}
