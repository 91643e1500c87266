package io.sparkhaven.spark.plan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The slices of a pinned snapshot, as Python planned them. All queries of one data frame share it, so nothing here
 * changes. The format is that of {@code readers/spark/jvm/plan_file.py}.
 */
public final class Plan {
  private static final byte[] MAGIC = "SHVPLAN1".getBytes(StandardCharsets.US_ASCII);
  private static final int HEADER = 24;
  private static final int COVERED = 20;
  private static final int ENTRY = 72;
  private static final int HISTORY = -1;

  /** For what Python has written, and the records that it becomes. All of their parts have to be there. */
  public static final ObjectMapper JSON =
      new ObjectMapper().enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES);

  private final JsonNode head;
  private final StructType schema;
  private final List<PlannedColumn> columns = new ArrayList<>();
  private final Map<String, PlannedColumn> byName = new HashMap<>();
  private final List<PlannedSlice> slices = new ArrayList<>();

  private Plan(ByteBuffer data, int headEnd) throws IOException {
    head = JSON.readTree(data.array(), HEADER, headEnd - HEADER);
    schema = (StructType) DataType.fromJson(head.required("schema").asText());
    JsonNode entries = head.required("columns");
    for (int number = 0; number < entries.size(); number++) {
      JsonNode entry = entries.get(number);
      columns.add(
          new PlannedColumn(
              entry.required("name").asText(),
              entry.required("id").asInt(),
              entry.required("partitioning").asBoolean(),
              JSON.treeToValue(entry.required("forms"), ColumnForm[].class),
              schema.apply(number).dataType(),
              head.required("instant").asText(),
              head.required("char").asText()));
    }
    columns.forEach(column -> byName.put(column.name(), column));
    readSlices(data, headEnd);
  }

  /**
   * Reads the file of a plan and deletes it.
   *
   * @throws DamagedPlan it is cut, changed, or of another release
   * @throws UncheckedIOException it cannot be read
   */
  public static Plan take(Path path) {
    try {
      byte[] bytes = Files.readAllBytes(path);
      Files.delete(path);
      return of(bytes, path);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /**
   * The plan in these bytes; {@code where} names them in errors.
   *
   * @throws DamagedPlan it is cut, changed, or of another release
   */
  public static Plan of(byte[] bytes, Object where) throws IOException {
    ByteBuffer data = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    if (bytes.length < HEADER || !ByteBuffer.wrap(bytes, 0, 8).equals(ByteBuffer.wrap(MAGIC))) {
      throw new DamagedPlan("it begins otherwise", where, new String(MAGIC, StandardCharsets.US_ASCII), "others");
    }
    if (data.getLong(8) != bytes.length) {
      throw new DamagedPlan("it is cut", where, data.getLong(8) + " bytes", bytes.length + " bytes");
    }
    CRC32 crc = new CRC32();
    crc.update(bytes, COVERED, bytes.length - COVERED);
    if ((int) crc.getValue() != data.getInt(16)) {
      throw new DamagedPlan(
          "its bytes have changed", where, "CRC-32 %08x".formatted(data.getInt(16)), "%08x".formatted(crc.getValue()));
    }
    try {
      return new Plan(data, HEADER + data.getInt(COVERED));
    } catch (JsonProcessingException
        | IllegalArgumentException
        | IndexOutOfBoundsException
        | ClassCastException error) {
      throw new DamagedPlan(where, error);
    }
  }

  private void readSlices(ByteBuffer data, int headEnd) throws IOException {
    String[] values = JSON.treeToValue(head.required("values"), String[].class);
    String[] internals = JSON.treeToValue(head.required("internals"), String[].class);
    String[] streams = JSON.treeToValue(head.required("streams"), String[].class);
    IndexForm[] indexes = JSON.treeToValue(head.required("indexes"), IndexForm[].class);
    List<Shape> shapes = new ArrayList<>();
    head.required("shapes").forEach(shape -> shapes.add(new Shape(shape, indexes)));
    int count = head.required("slices").asInt();
    int details = headEnd + count * ENTRY;
    for (int number = 0; number < count; number++) {
      int entry = headEnd + number * ENTRY;
      int stream = data.getInt(entry + 8);
      int directory = data.getInt(details);
      LocationRef location =
          new LocationRef(
              stream == HISTORY ? null : streams[stream],
              internals[data.getInt(entry + 4)],
              values[data.getInt(entry)],
              new String(data.array(), details + 4, directory, StandardCharsets.UTF_8),
              data.getLong(entry + 40),
              data.getLong(entry + 48),
              data.getLong(entry + 56),
              data.getLong(entry + 64));
      int end = details + data.getInt(entry + 20);
      slices.add(
          new PlannedSlice(
              data,
              shapes.get(data.getInt(entry + 12)),
              location,
              data.getInt(entry + 16),
              new long[] {data.getLong(entry + 24), data.getLong(entry + 32)},
              details + 4 + directory,
              end));
      details = end;
    }
  }

  /** {@code Namespace.Table}. */
  public String table() {
    return head.required("table").asText();
  }

  /** Columns of the data frame, in order. */
  public StructType schema() {
    return schema;
  }

  /** Columns of these names, in their order. */
  public StructType schema(String[] names) {
    StructType chosen = new StructType();
    for (String name : names) {
      chosen = chosen.add(schema.apply(name));
    }
    return chosen;
  }

  /** What is known of them, in the same order. */
  public List<PlannedColumn> columns() {
    return Collections.unmodifiableList(columns);
  }

  /** The column of that name; null: there is none. */
  public PlannedColumn column(String name) {
    return byName.get(name);
  }

  /** The column that an expression names; null: it is none. */
  public PlannedColumn column(Expression expression) {
    return expression instanceof NamedReference reference && reference.fieldNames().length == 1
        ? column(reference.fieldNames()[0])
        : null;
  }

  /** The columns of that names. */
  public PlannedColumn[] columns(String[] names) {
    return Stream.of(names).map(byName::get).toArray(PlannedColumn[]::new);
  }

  /** All slices, ordered by value, history before intraday, internal partition, and row. */
  public List<PlannedSlice> slices() {
    return Collections.unmodifiableList(slices);
  }

  /** When a task compares committed bytes with their checksums: read, open, scrub or off. */
  public String checksums() {
    return head.required("checksums").asText();
  }

  /** The condition that all rows of the plan satisfy; empty: there is none. */
  public String where() {
    return head.required("where").asText();
  }

  /** Most bytes of a task. */
  public long taskBytes() {
    return head.required("taskBytes").asLong();
  }

  /** Further parts of the head; JSON null where there is none of that name. */
  public JsonNode part(String name) {
    return head.path(name);
  }
}
