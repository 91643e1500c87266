package io.sparkhaven.spark;

import io.sparkhaven.spark.plan.Plan;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Asks Python's source for a plan. Options of {@code load} go to it, with the ones below. Its {@code schema} writes one
 * file, which is taken at once: a plan, or the reason why Python must read ({@code readers/spark/jvm/plan_file.py}).
 */
final class PlanRequest implements AutoCloseable {
  /** Where the plan is to be written: a file that does not exist. */
  static final String PLAN = "sparkhaven.plan";

  /** The digest of this jar's sources. Python plans for its own jar only. */
  private static final String JAR = "sparkhaven.jar";

  /** What the session says about readers, empty without; the option {@code reader} has precedence. */
  private static final String READER = "sparkhaven.reader";

  private static final String SETTING = "spark.sparkhaven.reader";
  private static final byte[] REASON = "SHVREASN".getBytes(StandardCharsets.US_ASCII);

  private final CaseInsensitiveStringMap options;
  private final Path path;

  private PlanRequest(CaseInsensitiveStringMap options, Path path) {
    this.options = options;
    this.path = path;
  }

  static PlanRequest of(CaseInsensitiveStringMap given) {
    Path path = Path.of(System.getProperty("java.io.tmpdir"), "sparkhaven-plan-" + UUID.randomUUID());
    Map<String, String> options = new HashMap<>(given.asCaseSensitiveMap());
    options.put(PLAN, path.toString());
    options.put(JAR, JarSources.digest());
    options.put(READER, SQLConf.get().getConfString(SETTING, ""));
    return new PlanRequest(new CaseInsensitiveStringMap(options), path);
  }

  /** What Python's source gets. */
  CaseInsensitiveStringMap options() {
    return options;
  }

  /**
   * What Python's source has written; the file is gone afterwards.
   *
   * @throws UncheckedIOException the file cannot be read or removed
   */
  Answer answer() {
    try {
      byte[] bytes = Files.readAllBytes(path);
      Files.delete(path);
      if (startsWith(bytes, REASON)) {
        String reason = new String(bytes, REASON.length, bytes.length - REASON.length, StandardCharsets.UTF_8);
        return new Answer(null, reason);
      }
      return new Answer(Plan.of(bytes, path), "");
    } catch (NoSuchFileException error) {
      return new Answer(null, "Python's source has made no plan: it is of another release");
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /**
   * Who reads the batches of a table.
   *
   * @param plan what Java reads; null: Python reads
   * @param reason why Python reads; empty if nobody was asked
   */
  record Answer(Plan plan, String reason) {}

  private static boolean startsWith(byte[] bytes, byte[] mark) {
    return bytes.length >= mark.length && Arrays.equals(bytes, 0, mark.length, mark, 0, mark.length);
  }

  /** Removes what is left after an error. */
  @Override
  public void close() {
    try {
      Files.deleteIfExists(path);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
