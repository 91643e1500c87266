package io.sparkhaven.spark.columns;

import io.sparkhaven.spark.files.FileIdentity;
import io.sparkhaven.spark.plan.FileState;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Dictionaries that tasks of this JVM have read. Those used longest ago go when all together take more than a sixteenth
 * of the memory, at most 256 MiB. One is used again while its files are the same to the system.
 */
final class Dictionaries {
  private static final int LEAST_BYTES = 512; // of the ends: a smaller one is read as fast as it is looked for
  private static final int SHARE = 16;
  private static final long MOST_BYTES = 256L << 20;
  private static final int PER_ENTRY = 512;
  private static final Dictionaries OF_PROCESS =
      new Dictionaries(Math.min(Runtime.getRuntime().maxMemory() / SHARE, MOST_BYTES));

  private final long most;
  private final Map<Key, Held> held = new LinkedHashMap<>(16, 0.75f, true);
  private long bytes;

  private Dictionaries(long most) {
    this.most = most;
  }

  static Dictionaries ofProcess() {
    return OF_PROCESS;
  }

  /** Reads a dictionary. */
  interface Reading {
    Dictionary read() throws IOException;
  }

  private record Key(
      String path, FileState symbols, FileState values, FileIdentity symbolFile, FileIdentity valueFile, String kind) {}

  private static final class Held {
    private volatile Dictionary dictionary;
  }

  /**
   * A dictionary that was read before from the same committed bytes, or now. Tasks that ask for the same one at once
   * wait for the first of them.
   *
   * @param symbols path of the {@code .sym} file
   * @param values path of the {@code .sym.bytes} file
   * @param kind what else differs: the charset, and whether bytes are compared with their checksum
   */
  Dictionary get(Path symbols, FileState symbolState, Path values, FileState valueState, String kind, Reading reading)
      throws IOException {
    if (symbolState.size() < LEAST_BYTES || valueState.size() > most / 4) {
      return reading.read();
    }
    FileIdentity symbolFile = FileIdentity.of(symbols);
    FileIdentity valueFile = FileIdentity.of(values);
    if (symbolFile == null || valueFile == null) {
      return reading.read(); // whose error names the file
    }
    Key key = new Key(symbols.toString(), symbolState, valueState, symbolFile, valueFile, kind);
    Held entry;
    synchronized (held) {
      entry = held.computeIfAbsent(key, unknown -> new Held());
    }
    synchronized (entry) {
      if (entry.dictionary == null) {
        entry.dictionary = read(key, entry, reading);
      }
      return entry.dictionary;
    }
  }

  private Dictionary read(Key key, Held entry, Reading reading) throws IOException {
    Dictionary dictionary;
    try {
      dictionary = reading.read();
    } catch (IOException | RuntimeException error) {
      synchronized (held) {
        held.remove(key, entry);
      }
      throw error;
    }
    synchronized (held) {
      if (held.get(key) == entry) { // else another task that asked for it has failed, and it is not kept
        bytes += dictionary.bytes() + PER_ENTRY;
        trim();
      }
    }
    return dictionary;
  }

  private void trim() {
    Iterator<Held> oldest = held.values().iterator();
    while (bytes > most && oldest.hasNext()) {
      Dictionary dictionary = oldest.next().dictionary;
      if (dictionary != null) { // else it is being read
        bytes -= dictionary.bytes() + PER_ENTRY;
        oldest.remove();
      }
    }
  }
}
