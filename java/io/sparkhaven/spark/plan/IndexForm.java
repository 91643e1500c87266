package io.sparkhaven.spark.plan;

import java.util.List;

/**
 * An index of locations of history: a directory with a file of keys for each of its columns, and files of the rows.
 *
 * @param directory its name, {@code Index-} and the names of the columns
 * @param names of all key columns, as the files have them
 * @param columns of the data frame that the first keys are; at least one
 * @param keys the forms of these keys
 * @param begin how a file begins that has the first row of each key
 * @param end how the one beside it begins, of the rows behind the last
 * @param rowSet how a file begins that has a set of rows of each key instead
 */
public record IndexForm(
    String directory,
    List<String> names,
    List<String> columns,
    List<ColumnForm> keys,
    byte[] begin,
    byte[] end,
    byte[] rowSet) {}
