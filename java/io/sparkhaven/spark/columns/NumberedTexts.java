package io.sparkhaven.spark.columns;

import org.apache.spark.unsafe.types.UTF8String;

/** Texts of a batch that are numbers of a dictionary. All batches of a location have the same one. */
public interface NumberedTexts {
  /** Number of the text in a row that is not null. */
  int number(int row);

  /** How many numbers there are. */
  int size();

  /** The text of a number that a row has. */
  UTF8String text(int number);
}
