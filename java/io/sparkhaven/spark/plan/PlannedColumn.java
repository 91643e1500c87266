package io.sparkhaven.spark.plan;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.DataType;

/** A column of the data frame, and the forms in which files may have it. */
public final class PlannedColumn implements Serializable {
  private static final long serialVersionUID = 1;

  private final String name;
  private final int id;
  private final boolean partitioning;
  private final ColumnForm[] forms;
  private final DataType type;
  private final String instant;
  private final String chars;

  private PlannedColumn(
      String name, int id, boolean partitioning, ColumnForm[] forms, DataType type, JsonNode head) {
    this.name = name;
    this.id = id;
    this.partitioning = partitioning;
    this.forms = forms;
    this.type = type;
    this.instant = head.required("instant").asText();
    this.chars = head.required("char").asText();
  }

  static PlannedColumn of(JsonNode entry, DataType type, JsonNode head) {
    List<ColumnForm> forms = new ArrayList<>();
    entry.required("forms").forEach(form -> forms.add(ColumnForm.of(form)));
    return new PlannedColumn(
        entry.required("name").asText(),
        entry.required("id").asInt(),
        entry.required("kind").asText().equals("PARTITIONING"),
        forms.toArray(ColumnForm[]::new),
        type,
        head);
  }

  /** Name in the data frame. */
  public String name() {
    return name;
  }

  /** Number in the history of the schema, which no other column has. */
  public int id() {
    return id;
  }

  /** Whether it is the value of the location's directory, and has no files. */
  public boolean partitioning() {
    return partitioning;
  }

  /** The newest form first; none of the partitioning column. */
  public ColumnForm[] forms() {
    return forms;
  }

  /** The newest form. */
  public ColumnForm form() {
    return forms[0];
  }

  /** Type in the data frame. */
  public DataType type() {
    return type;
  }

  /** Option {@code instant}: timestamp, timestamp-truncate or long. */
  public String instant() {
    return instant;
  }

  /** Option {@code char}: string or int. */
  public String chars() {
    return chars;
  }
}
