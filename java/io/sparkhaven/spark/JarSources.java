package io.sparkhaven.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** Tells of which sources the loaded jar was made. A program compares it with its own jar's. */
public final class JarSources {
  private JarSources() {}

  /**
   * SHA-256 of the sources, 64 hexadecimal digits, as {@code java/build.py} wrote it beside this class.
   *
   * @throws IllegalStateException the jar has no such entry
   */
  public static String digest() {
    try (InputStream entry = JarSources.class.getResourceAsStream("sources")) {
      if (entry == null) {
        throw new IllegalStateException("the jar of io.sparkhaven.spark has no entry io/sparkhaven/spark/sources");
      }
      return new String(entry.readAllBytes(), StandardCharsets.US_ASCII).strip();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
