package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.codings.DamagedValue;
import io.sparkhaven.spark.codings.RowSets;
import io.sparkhaven.spark.columns.FileBegin;
import io.sparkhaven.spark.columns.TextCharset;
import io.sparkhaven.spark.files.Checksums;
import io.sparkhaven.spark.files.CommittedFile;
import io.sparkhaven.spark.files.RecentMap;
import io.sparkhaven.spark.plan.ColumnForm;
import io.sparkhaven.spark.plan.FileState;
import io.sparkhaven.spark.plan.IndexForm;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RowRanges;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * An index of one location of history: a row a key, which ascend. {@code dh_begin_pos} and {@code dh_end_pos} are the
 * one range of rows of each key of a grouping column; any other index has {@code dh_row_set}. Who uses it looks at no
 * index that is missing, damaged or of another form: all of these are an IOException.
 */
final class IndexFile implements Closeable {
  private static final int MOST_KEYS = 1 << 12; // that one lookup asks for
  private static final long MOST_BYTES = 32 << 20; // of the row sets of one lookup
  private static final int MOST_KNOWN = 1 << 12;
  private static final int OFFSET = 4096; // of the data in each .dat file
  private static final String BEGIN = "dh_begin_pos";
  private static final String END = "dh_end_pos";
  private static final String ROW_SET = "dh_row_set";

  /** Whether the keys of an index of ranges ascend, which earlier releases did not promise; by path and checksum. */
  private static final Map<String, Boolean> ASCEND = new RecentMap<>(MOST_KNOWN);

  private final PlannedSlice slice;
  private final IndexForm form;
  private final Checksums checks;
  private final List<Closeable> opened = new ArrayList<>();
  private final List<IndexKeys> keys = new ArrayList<>();
  private IndexBytes starts; // null: there are sets
  private IndexBytes stops;
  private IndexBytes setEnds;
  private IndexBytes sets;

  private IndexFile(PlannedSlice slice, IndexForm form, Checksums checks) {
    this.slice = slice;
    this.form = form;
    this.checks = checks;
  }

  /** An index with its first so many keys, which are those columns. */
  static IndexFile open(PlannedSlice slice, IndexForm form, List<PlannedColumn> columns, Checksums checks)
      throws IOException {
    IndexFile index = new IndexFile(slice, form, checks);
    try {
      index.open(columns);
    } catch (IOException | RuntimeException error) {
      index.close();
      throw error;
    }
    return index;
  }

  private void open(List<PlannedColumn> columns) throws IOException {
    for (int number = 0; number < columns.size(); number++) {
      String name = form.names().get(number);
      ColumnForm key = form.keys().get(number);
      IndexBytes data = file(name + ".dat", key.prefix());
      boolean texts = key.storage().equals("BLOB");
      keys.add(
          texts
              ? new IndexKeys.Texts(data, file(name + ".bytes", null), new TextCharset(key.charset()))
              : new IndexKeys.Numbers(data, key, columns.get(number)));
      requireRows(keys.get(number).size());
    }
    if (slice.indexState(form.directory() + "/" + BEGIN + ".dat") != null) {
      starts = file(BEGIN + ".dat", form.begin());
      stops = file(END + ".dat", form.end());
      requireRows(stops.size() / Long.BYTES);
      requireRows(starts.size() / Long.BYTES);
      requireAscending();
    } else {
      setEnds = file(ROW_SET + ".dat", form.rowSet());
      sets = file(ROW_SET + ".bytes", null);
      requireRows(setEnds.size() / Long.BYTES);
    }
  }

  private IndexBytes file(String name, byte[] prefix) throws IOException {
    FileState state = slice.indexState(form.directory() + "/" + name);
    DamagedValue.unless(state != null);
    Path path = Path.of(slice.location().directory(), form.directory(), name);
    CommittedFile file = new CommittedFile(path, 0, state);
    opened.add(file);
    file.checked(checks);
    DamagedValue.unless(prefix == null || FileBegin.isPadded(file.bytes(0, OFFSET), prefix));
    return new IndexBytes(file, prefix == null ? 0 : OFFSET);
  }

  private void requireRows(long rows) throws DamagedValue {
    DamagedValue.unless(rows == keys.get(0).size());
  }

  private void requireAscending() throws IOException {
    String first = form.directory() + "/" + form.names().get(0) + ".dat";
    String known = slice.location().directory() + "/" + first + " " + slice.indexState(first).crc();
    Boolean ascend;
    synchronized (ASCEND) {
      ascend = ASCEND.get(known);
    }
    if (ascend == null) {
      ascend = keys.get(0).ascend();
      synchronized (ASCEND) {
        ASCEND.put(known, ascend);
      }
    }
    DamagedValue.unless(ascend);
  }

  /**
   * Rows whose first keys are one of each of these; null: they are too many to be looked up. Keys of a further column
   * ascend only where those before it are the same. So each span is cut where they change.
   */
  long[] find(List<List<Object>> wanted) throws IOException {
    List<long[]> spans = List.of(new long[] {0, keys.get(0).size()});
    for (int number = 0; number < wanted.size(); number++) {
      if (number > 0) {
        spans = runs(keys.get(number - 1), spans);
      }
      if (spans.size() > MOST_KEYS) {
        return null;
      }
      spans = spans(keys.get(number), spans, wanted.get(number));
      if (spans.size() > MOST_KEYS) {
        return null;
      }
    }
    long keys = spans.stream().mapToLong(span -> span[1] - span[0]).sum();
    if (keys > MOST_KEYS || starts == null && bytesOf(spans) > MOST_BYTES) {
      return null;
    }
    List<long[]> rows = new ArrayList<>();
    for (long[] span : spans) {
      for (long number = span[0]; number < span[1]; number++) {
        rows.add(rowsOf(number));
      }
    }
    return RowRanges.union(rows);
  }

  /** The entries of spans in parts that have one stored key each. */
  private static List<long[]> runs(IndexKeys keys, List<long[]> spans) throws IOException {
    List<long[]> runs = new ArrayList<>();
    for (long[] span : spans) {
      for (long from = span[0]; from < span[1] && runs.size() <= MOST_KEYS; ) {
        long to = keys.end(from, span[1]);
        runs.add(new long[] {from, to});
        from = to;
      }
    }
    return runs;
  }

  private static List<long[]> spans(IndexKeys keys, List<long[]> within, List<Object> wanted)
      throws IOException {
    List<long[]> spans = new ArrayList<>();
    for (long[] span : within) {
      for (Object value : wanted) {
        Object literal = keys.literal(value);
        if (literal != null) {
          long low = keys.first(literal, false, span[0], span[1]);
          long high = keys.first(literal, true, low, span[1]);
          if (low < high) {
            spans.add(new long[] {low, high});
          }
        }
      }
    }
    return spans;
  }

  private long bytesOf(List<long[]> spans) throws IOException {
    long bytes = 0;
    for (long[] span : spans) {
      bytes += end(setEnds, span[1] - 1) - end(setEnds, span[0] - 1);
    }
    return bytes;
  }

  private long[] rowsOf(long number) throws IOException {
    long[] rows;
    if (starts != null) {
      rows = new long[] {starts.numberAt(number), stops.numberAt(number)};
    } else {
      rows = RowSets.ranges(value(setEnds, sets, number));
    }
    boolean inside = rows.length == 0 || rows[0] >= 0 && rows[rows.length - 1] <= slice.location().rows();
    DamagedValue.unless(inside && (rows.length != 2 || rows[0] < rows[1]));
    return rows;
  }

  /** The bytes of an entry, of which {@code ends} has the end and that of the one before it. */
  static byte[] value(IndexBytes ends, IndexBytes data, long number) throws IOException {
    long from = end(ends, number - 1);
    long to = end(ends, number);
    DamagedValue.unless(from >= 0 && to >= from && to <= data.size());
    return data.copy(from, to);
  }

  private static long end(IndexBytes ends, long number) throws IOException {
    return number < 0 ? 0 : ends.numberAt(number);
  }

  @Override
  public void close() throws IOException {
    for (Closeable file : opened) {
      file.close();
    }
  }
}
