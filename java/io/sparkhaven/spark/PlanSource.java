package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.Plan;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Reads what a plan names. Option {@code plan}: its file, which is read once and deleted. */
public final class PlanSource implements TableProvider {
  private Plan plan;

  @Override
  public boolean supportsExternalMetadata() {
    return false;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return plan(options.get("plan")).schema();
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new PlanTable(plan(new CaseInsensitiveStringMap(properties).get("plan")));
  }

  private Plan plan(String path) {
    if (plan == null) {
      if (path == null) {
        throw new IllegalArgumentException("option plan is missing: call sparkhaven.read_frame");
      }
      plan = Plan.take(Path.of(path));
    }
    return plan;
  }
}
