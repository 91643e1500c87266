package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.plan.ColumnFiles;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import java.util.List;

/** Whether tasks should group by a column of texts: where it has numbers for them, and rows share texts. */
final class FewTexts {
  private static final int SYMBOL_FILES = 3; // numbers, ends of texts, texts
  private static final int SHARED = 8; // rows a text: with fewer Spark has nearly as many rows to put together

  private FewTexts() {}

  static boolean has(PlannedColumn column, List<PlannedSlice> slices) {
    long rows = 0;
    long texts = 0;
    for (PlannedSlice slice : slices) {
      ColumnFiles files = slice.files(column);
      if (slice.inParquet() || !files.absent() && files.states().length != SYMBOL_FILES) {
        return false;
      }
      rows += slice.count();
      texts += files.absent() ? 1 : files.states()[1].size() / Long.BYTES;
    }
    return texts * SHARED <= rows;
  }
}
