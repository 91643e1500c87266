package io.sparkhaven.spark.checksums;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/** Prefixes of one file that were compared, with their CRC-32. Who uses it holds its lock. */
final class ComparedFile {
  private static final int MOST_PREFIXES = 4; // epochs that are read in turn

  private final Map<Long, Integer> prefixes =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, Integer> eldest) {
          return size() > MOST_PREFIXES;
        }
      };
  private FileIdentity identity;

  /** Whether the prefix was compared; forgets all if more than an append happened to the file since. */
  boolean has(FileIdentity now, long size, int crc) {
    if (identity != null && !identity.onlyGrewTo(now)) {
      prefixes.clear();
    }
    identity = now;
    Integer compared = prefixes.get(size);
    return compared != null && compared == crc;
  }

  /** CRC-32 of the first {@code size} bytes: those behind the longest prefix that was compared are read. */
  int continued(CommittedBytes bytes, long size) throws IOException {
    long base = 0;
    int crc = 0;
    for (Map.Entry<Long, Integer> prefix : prefixes.entrySet()) {
      if (prefix.getKey() <= size && prefix.getKey() >= base) {
        base = prefix.getKey();
        crc = prefix.getValue();
      }
    }
    return base == 0 ? bytes.crc(0, size) : CombinedCrc.of(crc, bytes.crc(base, size - base), size - base);
  }

  void add(long size, int crc) {
    prefixes.remove(size);
    prefixes.put(size, crc);
  }
}
