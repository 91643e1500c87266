import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparkhaven.spark.DeephavenTable;
import io.sparkhaven.spark.aggregates.AskedAggregates;
import io.sparkhaven.spark.indexes.IndexedRows;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.pushdown.PushedFilters;
import io.sparkhaven.spark.snapshot.SnapshotCheck;
import io.sparkhaven.spark.tasks.ReadTask;
import io.sparkhaven.spark.tasks.TaskMaker;
import io.sparkhaven.spark.tasks.TaskReaders;
import io.sparkhaven.spark.tasks.TaskSlice;
import java.math.BigDecimal;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Asks a plan what Spark would ask, a line of JSON each: {"plan": path, or null for that of before, "predicates",
 * "aggregates", "groups", "limit", "columns"}. The answer: the values that tasks read of the columns, as texts, the
 * ranges of each task, their error, the ranges of each slice that is read, how many predicates are left to Spark,
 * whether a limit is taken, and the rows of the aggregates as texts, or null. "by": the plan, or tasks, whose rows Spark
 * would aggregate. With "scan" also what Spark shows of its scan, whether it is equal to another of these predicates,
 * and to one of none.
 */
public final class PushedQueries {
  private static final ObjectMapper JSON = new ObjectMapper();

  private PushedQueries() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    Plan plan = null;
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode question = JSON.readTree(line);
      plan = question.get("plan").isNull() ? plan : Plan.take(Path.of(question.get("plan").asText()));
      System.out.println(JSON.writeValueAsString(answer(plan, question)));
    }
  }

  private static ObjectNode answer(Plan plan, JsonNode question) throws Exception {
    List<Predicate> predicates = new ArrayList<>();
    question.get("predicates").forEach(tree -> predicates.add(predicate(tree)));
    Predicate[] asked = predicates.toArray(Predicate[]::new);
    PushedFilters filters = new PushedFilters(plan);
    ObjectNode answer = JSON.createObjectNode();
    answer.put("left", filters.push(asked).length);
    List<PlannedSlice> slices = IndexedRows.narrowed(filters.slices(), filters.lookup(), plan);
    if (!question.get("limit").isNull()) {
      slices = PlannedSlice.first(slices, question.get("limit").asLong());
    }
    ArrayNode read = answer.putArray("read");
    for (PlannedSlice slice : slices) {
      ArrayNode ranges = read.addArray().add(slice.location().directory()).addArray();
      for (long edge : slice.ranges()) {
        ranges.add(edge);
      }
    }
    if (!question.get("columns").isEmpty()) {
      try {
        values(plan, slices, filters, question.get("columns"), answer);
      } catch (IOException error) {
        answer.put("error", error.getMessage());
      }
    }
    aggregates(plan, asked, slices, question, answer);
    if (question.path("scan").asBoolean()) {
      Scan scan = scan(plan, asked);
      answer.put("description", scan.description());
      answer.put("same", scan.equals(scan(plan, asked)) && scan.hashCode() == scan(plan, asked).hashCode());
      answer.put("other", scan.equals(scan(plan, new Predicate[0])));
    }
    return answer;
  }

  private static void values(
      Plan plan, List<PlannedSlice> slices, PushedFilters filters, JsonNode names, ObjectNode answer) throws Exception {
    ArrayNode into = answer.putArray("values");
    ArrayNode tasks = answer.putArray("tasks");
    List<String> listed = new ArrayList<>();
    names.forEach(name -> listed.add(name.asText()));
    PlannedColumn[] columns = plan.columns(listed.toArray(String[]::new));
    TaskReaders readers =
        sent(new TaskReaders(columns, "off", SnapshotCheck.of(plan.part("pins")), filters.conditions(), null));
    for (ReadTask task : TaskMaker.make(slices, columns, plan.taskBytes(), 2)) {
      ArrayNode parts = tasks.addArray();
      for (TaskSlice part : task.slices()) {
        for (long edge : part.ranges()) {
          parts.add(edge);
        }
      }
      try (PartitionReader<ColumnarBatch> reader = readers.createColumnarReader(task)) {
        while (reader.next()) {
          for (int row = 0; row < reader.get().numRows(); row++) {
            ArrayNode shown = into.addArray();
            for (int column = 0; column < columns.length; column++) {
              InternalRow values = reader.get().getRow(row);
              shown.add(values.isNullAt(column) ? null : values.get(column, columns[column].type()).toString());
            }
          }
        }
      }
    }
  }

  /** What Spark reads of all columns, without a limit. */
  private static Scan scan(Plan plan, Predicate[] asked) {
    ScanBuilder builder = new DeephavenTable(plan).newScanBuilder(new CaseInsensitiveStringMap(Map.of()));
    ((SupportsPushDownV2Filters) builder).pushPredicates(asked);
    return builder.build();
  }

  private static void aggregates(
      Plan plan, Predicate[] asked, List<PlannedSlice> slices, JsonNode question, ObjectNode answer) throws Exception {
    ScanBuilder builder = new DeephavenTable(plan).newScanBuilder(new CaseInsensitiveStringMap(Map.of()));
    ((SupportsPushDownV2Filters) builder).pushPredicates(asked);
    List<AggregateFunc> functions = new ArrayList<>();
    question.get("aggregates").forEach(function -> functions.add(function(function)));
    List<Expression> groups = new ArrayList<>();
    question.get("groups").forEach(group -> groups.add(column(group.asText())));
    boolean any = !functions.isEmpty() || !groups.isEmpty();
    Aggregation aggregation =
        new Aggregation(functions.toArray(AggregateFunc[]::new), groups.toArray(Expression[]::new));
    boolean pushed = any && ((SupportsPushDownAggregates) builder).pushAggregation(aggregation);
    answer.put("limited", ((SupportsPushDownLimit) builder).pushLimit(1));
    if (!pushed) {
      answer.putNull("aggregates");
      return;
    }
    Scan scan = builder.build();
    answer.put("by", scan instanceof LocalScan ? "plan" : "tasks");
    List<InternalRow> found =
        scan instanceof LocalScan local
            ? List.of(local.rows())
            : rowsOfTasks(plan, slices, aggregation, scan.toBatch().createReaderFactory());
    StructType schema = scan.readSchema();
    ArrayNode rows = answer.putArray("aggregates");
    for (InternalRow row : found) {
      ArrayNode shown = rows.addArray();
      for (int number = 0; number < schema.length(); number++) {
        Object value = row.get(number, schema.apply(number).dataType());
        shown.add(value == null ? null : value.toString());
      }
    }
  }

  private static List<InternalRow> rowsOfTasks(
      Plan plan, List<PlannedSlice> slices, Aggregation asked, PartitionReaderFactory made) throws Exception {
    List<InternalRow> rows = new ArrayList<>();
    PlannedColumn[] columns = plan.columns(AskedAggregates.of(asked, plan).columns());
    PartitionReaderFactory readers = sent(made);
    for (ReadTask task : TaskMaker.make(slices, columns, plan.taskBytes(), 2)) {
      try (PartitionReader<InternalRow> reader = readers.createReader(sent(task))) {
        while (reader.next()) {
          rows.add(reader.get());
        }
      }
    }
    return rows;
  }

  /** As a worker gets it. */
  @SuppressWarnings("unchecked")
  private static <T> T sent(T value) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(value);
    }
    return (T) new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray())).readObject();
  }

  private static AggregateFunc function(JsonNode from) {
    return switch (from.get(0).asText()) {
      case "rows" -> new CountStar();
      case "count" -> new Count(column(from.get(1).asText()), false);
      case "min" -> new Min(column(from.get(1).asText()));
      case "max" -> new Max(column(from.get(1).asText()));
      default -> throw new IllegalArgumentException(from.toString());
    };
  }

  private static Predicate predicate(JsonNode tree) {
    List<Expression> children = new ArrayList<>();
    tree.get(1).forEach(child -> children.add(expression(child)));
    return new Predicate(tree.get(0).asText(), children.toArray(Expression[]::new));
  }

  /** [name, children]: a predicate; a text: a column; {"type", "value"}: a literal. */
  private static Expression expression(JsonNode tree) {
    if (tree.isArray()) {
      return predicate(tree);
    }
    return tree.isTextual() ? column(tree.asText()) : literal(tree.get("type").asText(), tree.get("value"));
  }

  private static NamedReference column(String name) {
    return Expressions.column(name);
  }

  private static Expression literal(String type, JsonNode value) {
    DataType kind = DataType.fromDDL(type);
    String text = value.textValue();
    Object literal = value.isNull() ? null : switch (type.replaceFirst("\\(.*", "")) {
      case "bigint", "timestamp" -> Long.valueOf(text);
      case "int", "date" -> Integer.valueOf(text);
      case "decimal" -> Decimal.apply(new BigDecimal(text));
      case "smallint" -> Short.valueOf(text);
      case "tinyint" -> Byte.valueOf(text);
      case "double" -> Double.valueOf(text);
      case "float" -> Float.valueOf(text);
      case "boolean" -> Boolean.valueOf(text);
      case "string" -> UTF8String.fromString(text);
      default -> throw new IllegalArgumentException("type " + type);
    };
    return new LiteralValue<>(literal, kind);
  }
}
