package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.Plan;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The format {@code deephaven}. Python's source of that name tells the columns, and plans a batch for Java where Java
 * reads it exactly. Streams, writes and all other batches stay with Python's source, in Spark's own class for it. Where
 * the program has planned the read, option {@code sparkhaven.plan} names the file of the plan, and nobody is asked.
 *
 * <p>Spark makes an object for each {@code load} or {@code save}, and one more whenever it looks any format up.
 */
public final class DeephavenSource extends PythonDataSourceV2 implements DataSourceRegister {
  private static final String NAME = "deephaven";

  private PlanRequest.Answer answer = new PlanRequest.Answer(null, "");
  private boolean isPlanned;

  public DeephavenSource() {
    super.setShortName(NAME);
  }

  @Override
  public String shortName() {
    return NAME;
  }

  /** Spark tells what the user wrote, which may be the name of this class; Python's source has one name. */
  @Override
  public void setShortName(String given) {}

  /** The columns of the table, as Python tells them. Pins the snapshot that all queries of the frame see. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    isPlanned = options.containsKey(PlanRequest.PLAN);
    if (isPlanned) {
      answer = new PlanRequest.Answer(Plan.take(Path.of(options.get(PlanRequest.PLAN))), "");
      return answer.plan().schema();
    }
    try (PlanRequest request = PlanRequest.of(options)) {
      StructType schema = super.inferSchema(request.options());
      answer = request.answer();
      return schema;
    }
  }

  /** Without {@link #inferSchema} before it is a write, or the user has given a schema: no plan was made. */
  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    Table python = isPlanned ? null : super.getTable(schema, partitioning, properties);
    return new DeephavenTable(python, answer.plan(), answer.reason());
  }
}
