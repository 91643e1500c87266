package io.sparkhaven.spark.columns;

import org.apache.spark.unsafe.types.UTF8String;

/** A condition of one column of texts. */
public interface TextCondition {
  /** Whether it may be true for a text, or for null. */
  boolean mayBeTrue(UTF8String text);
}
