package io.sparkhaven.spark.aggregates;

import io.sparkhaven.spark.columns.Dictionary;
import io.sparkhaven.spark.columns.PickedVector;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.pushdown.RowFilter;
import io.sparkhaven.spark.pushdown.ValueOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Numbers the groups of rows as they come. A key is the values that are grouped by, null among them. */
final class Groups {
  private static final int NONE = -1;

  private final AskedAggregates asked;
  private final RowFilter filter; // null: all rows count
  private final Map<List<Object>, Integer> numbers = new HashMap<>();
  private final List<List<Object>> keys = new ArrayList<>();
  private Dictionary texts; // of the location that is read
  private int[] ofTexts = {}; // group by number of a text, 1 more than it is; 0: not known yet

  Groups(AskedAggregates asked, RowFilter filter) {
    this.asked = asked;
    this.filter = filter;
    if (asked.groups().isEmpty()) {
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

  /** The groups of a batch's rows; below 0: the row is left out. */
  int[] of(ColumnarBatch batch) {
    int[] groups = new int[batch.numRows()];
    if (filter == null && !asked.isMixed()) {
      Arrays.fill(groups, numberOf(keyOf(batch, 0)));
      return groups;
    }
    boolean isOne = filter == null && asked.groups().size() == 1;
    PickedVector numbered = isOne ? PickedVector.numbered(batch.column(asked.place(asked.groups().get(0)))) : null;
    if (numbered != null && numbered.texts() != texts) {
      texts = numbered.texts();
      ofTexts = new int[0];
    }
    for (int row = 0; row < groups.length; row++) {
      if (filter != null && !filter.holds(batch, row)) {
        groups[row] = NONE;
      } else {
        groups[row] = numbered == null ? numberOf(keyOf(batch, row)) : ofText(numbered.number(row));
      }
    }
    return groups;
  }

  private int ofText(int number) {
    if (number >= ofTexts.length) {
      ofTexts = Arrays.copyOf(ofTexts, 2 * number + 16);
    }
    if (ofTexts[number] == 0) {
      ofTexts[number] = 1 + numberOf(Collections.singletonList(texts.text(number)));
    }
    return ofTexts[number] - 1;
  }

  private List<Object> keyOf(ColumnarBatch batch, int row) {
    Object[] key = new Object[asked.groups().size()];
    for (int number = 0; number < key.length; number++) {
      PlannedColumn column = asked.groups().get(number);
      ColumnVector vector = batch.column(asked.place(column));
      key[number] = vector.isNullAt(row) ? null : ValueOrder.internal(vector, row);
    }
    return Arrays.asList(key);
  }

  private int numberOf(List<Object> key) {
    return numbers.computeIfAbsent(
        key,
        unknown -> {
          keys.add(unknown);
          return keys.size() - 1;
        });
  }
}
