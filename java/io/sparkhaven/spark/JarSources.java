package io.sparkhaven.spark;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** Tells of which sources the loaded jar was made. A program compares it with its own jar's. */
public final class JarSources {
  private static final String LOADED = read();

  private JarSources() {}

  /**
   * SHA-256 of the sources, 64 hexadecimal digits, as {@code java/build.py} wrote it beside this class.
   */
  public static String digest() {
    return LOADED;
  }

  private static String read() {
    try (InputStream entry = JarSources.class.getResourceAsStream("sources")) {
      if (entry == null) {
        throw new IllegalStateException("the jar of io.sparkhaven.spark has no entry io/sparkhaven/spark/sources");
      }
      return new String(entry.readAllBytes(), StandardCharsets.US_ASCII).strip();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /**
   * For a task that a driver has made.
   *
   * @throws UncheckedIOException this executor has loaded another jar than the driver
   */
  public static void requireSame(String driver) {
    if (!driver.equals(LOADED)) {
      IOException error =
          ReadFailure.of(
              "SettingsError",
              "an executor has the Spark reader of another release than the driver",
              JarSources.class.getResource("sources"),
              driver,
              LOADED,
              "remove that jar from spark.executor.extraClassPath and from Spark's jars. The driver sends its own");
      throw new UncheckedIOException(error.getMessage(), error);
    }
  }
}
