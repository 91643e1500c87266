package io.sparkhaven.spark.pushdown;

import org.apache.spark.unsafe.types.UTF8String;

/** Whether a text starts or ends with another, or contains it: known where all rows have the same text. */
final class TextTest extends ColumnTest {
  private static final long serialVersionUID = 1;

  private final String kind;
  private final UTF8String part;

  /** {@code kind}: STARTS_WITH, ENDS_WITH or CONTAINS. */
  TextTest(String column, String kind, UTF8String part) {
    super(column);
    this.kind = kind;
    this.part = part;
  }

  @Override
  int outcomes(ColumnValues values) {
    int outcomes = values.nulls() ? Outcomes.NULL : 0;
    if (!values.others()) {
      return outcomes;
    }
    if (values.bounded()) {
      UTF8String low = (UTF8String) values.low();
      UTF8String high = (UTF8String) values.high();
      if (low.binaryCompare(high) == 0) {
        return outcomes | Outcomes.of(holds(low));
      }
      if (kind.equals("STARTS_WITH") && (high.binaryCompare(part) < 0 || isAbove(low))) {
        return outcomes | Outcomes.FALSE;
      }
    }
    return outcomes | Outcomes.TRUE | Outcomes.FALSE;
  }

  /** Whether a text is above all that start with the part. */
  private boolean isAbove(UTF8String text) {
    return text.binaryCompare(part) > 0 && !text.startsWith(part);
  }

  private boolean holds(UTF8String text) {
    return switch (kind) {
      case "STARTS_WITH" -> text.startsWith(part);
      case "ENDS_WITH" -> text.endsWith(part);
      case "CONTAINS" -> text.contains(part);
      default -> throw new IllegalArgumentException("test " + kind);
    };
  }
}
