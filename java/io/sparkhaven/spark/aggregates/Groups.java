package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.columns.NumberedTexts;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.pushdown.RowFilter;
import io.sparkhaven.spark.pushdown.RowValues;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Numbers the groups of rows as they come. A key is the values that are grouped by, null among them. */
final class Groups {
  private final AskedAggregates asked;
  private final RowFilter.OfBatches filter; // null: all rows count
  private final RowValues[] values;
  private final Map<List<Object>, Integer> numbers = new HashMap<>();
  private final List<List<Object>> keys = new ArrayList<>();
  private NumberedTexts numbered; // of the location that is read
  private int ofNull = GroupNumbers.NONE; // where one column is grouped by
  private int[] ofTexts = {}; // group by number of a text, 1 more than it is; 0: not known yet

  Groups(AskedAggregates asked, RowFilter.OfBatches filter) {
    this.asked = asked;
    this.filter = filter;
    this.values = asked.groups().stream().map(RowValues::of).toArray(RowValues[]::new);
    if (values.length == 0) {
      numberOf(List.of());
    }
  }

  /** How many groups there are. */
  int size() {
    return keys.size();
  }

  List<Object> key(int group) {
    return keys.get(group);
  }

  /** The groups of a batch's rows. */
  GroupNumbers of(ColumnarBatch batch) {
    if (filter == null && !asked.isMixed()) {
      return GroupNumbers.one(values.length == 0 ? 0 : numberOf(keyOf(batch, 0)));
    }
    int[] groups = new int[batch.numRows()];
    ColumnVector vector = values.length == 1 ? batch.column(asked.place(asked.groups().get(0))) : null;
    if (filter == null && vector instanceof NumberedTexts texts) {
      number(texts, vector, groups);
      return GroupNumbers.several(groups);
    }
    for (int row = 0; row < groups.length; row++) {
      if (filter != null && !filter.holds(batch, row)) {
        groups[row] = GroupNumbers.NONE;
      } else {
        groups[row] = vector != null && vector.isNullAt(row) ? ofNull() : numberOf(keyOf(batch, row));
      }
    }
    return GroupNumbers.several(groups);
  }

  private void number(NumberedTexts texts, ColumnVector vector, int[] groups) {
    if (texts != numbered) {
      numbered = texts;
      ofTexts = new int[texts.size()];
    }
    boolean nulls = vector.hasNull();
    for (int row = 0; row < groups.length; row++) {
      if (nulls && vector.isNullAt(row)) {
        groups[row] = ofNull();
        continue;
      }
      int text = texts.number(row);
      if (ofTexts[text] == 0) {
        ofTexts[text] = 1 + numberOf(List.of(texts.text(text).copy()));
      }
      groups[row] = ofTexts[text] - 1;
    }
  }

  private int ofNull() {
    if (ofNull < 0) {
      ofNull = numberOf(Arrays.asList((Object) null));
    }
    return ofNull;
  }

  private List<Object> keyOf(ColumnarBatch batch, int row) {
    Object[] key = new Object[values.length];
    for (int number = 0; number < key.length; number++) {
      PlannedColumn column = asked.groups().get(number);
      ColumnVector vector = batch.column(asked.place(column));
      key[number] = vector.isNullAt(row) ? null : values[number].internal(vector, row);
    }
    return Arrays.asList(key);
  }

  private int numberOf(List<Object> key) {
    Integer number = numbers.get(key);
    if (number == null) {
      number = keys.size();
      numbers.put(key, number);
      keys.add(key);
    }
    return number;
  }
}
