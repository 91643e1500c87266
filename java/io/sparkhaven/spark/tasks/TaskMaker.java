package io.sparkhaven.spark.tasks;

import io.sparkhaven.spark.columns.LocationColumn;
import io.sparkhaven.spark.parquet.ParquetFooter;
import io.sparkhaven.spark.plan.ColumnFiles;
import io.sparkhaven.spark.plan.PickedRows;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RowRanges;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Divides slices into tasks of equal cost. A task costs the bytes of the columns that it reads, and for each file that
 * it opens as much as reading 64 KiB costs. So thousands of small locations share a task, and a large one is divided
 * by rows. There are as many tasks as cores, or a multiple of it: each task costs Spark some milliseconds, and where a
 * shuffle follows also a file for each of its parts.
 */
public final class TaskMaker {
  private static final long OPEN_BYTES = 64 << 10;
  private static final long LEAST_BYTES = 4 << 20;

  private final PlannedColumn[] columns;
  private final List<ReadTask> tasks = new ArrayList<>();
  private final List<TaskSlice> task = new ArrayList<>();
  private long target;
  private long room;

  private TaskMaker(PlannedColumn[] columns) {
    this.columns = columns;
  }

  /**
   * Tasks in the order of the slices.
   *
   * @param columns that they read
   * @param most bytes of a task
   * @param cores that run tasks at once
   */
  public static ReadTask[] make(List<PlannedSlice> slices, PlannedColumn[] columns, long most, int cores) {
    TaskMaker maker = new TaskMaker(columns);
    ColumnFiles[][] files = new ColumnFiles[slices.size()][];
    long[] costs = new long[files.length];
    for (int number = 0; number < files.length; number++) {
      PlannedSlice slice = slices.get(number);
      files[number] = filesOf(slice, columns);
      costs[number] = cost(slice, files[number]);
    }
    maker.target = target(Arrays.stream(costs).sum(), most, cores);
    maker.room = maker.target;
    for (int number = 0; number < files.length; number++) {
      maker.divide(slices.get(number), files[number], costs[number]);
    }
    maker.end();
    return maker.tasks.toArray(ReadTask[]::new);
  }

  /** One task that reads all slices. */
  public static ReadTask single(List<PlannedSlice> slices, PlannedColumn[] columns) {
    TaskMaker maker = new TaskMaker(columns);
    slices.forEach(slice -> maker.add(slice, slice.ranges(), filesOf(slice, columns)));
    return new ReadTask(maker.task.toArray(TaskSlice[]::new));
  }

  /** Bytes of these columns that a slice reads. */
  public static long bytes(PlannedSlice slice, PlannedColumn[] columns) {
    return bytes(slice, filesOf(slice, columns));
  }

  private static ColumnFiles[] filesOf(PlannedSlice slice, PlannedColumn[] columns) {
    ColumnFiles[] files = new ColumnFiles[columns.length];
    for (int number = 0; number < files.length; number++) {
      files[number] = slice.files(columns[number]);
    }
    return files;
  }

  private static long target(long total, long most, int cores) {
    long tasks = Math.max(1, (total + most - 1) / most);
    tasks = (tasks + cores - 1) / cores * cores;
    return Math.max(Math.min(LEAST_BYTES, most), (total + tasks - 1) / tasks);
  }

  private static long bytes(PlannedSlice slice, ColumnFiles[] files) {
    long size = 0;
    for (ColumnFiles column : files) {
      size += column.size();
    }
    if (slice.inParquet()) { // the part of these columns is not known before the file is opened
      size = slice.parquet().size() * files.length / Math.max(slice.columns(), files.length);
    }
    return (long) ((double) size * slice.covered() / Math.max(1, slice.location().rows()));
  }

  private static long cost(PlannedSlice slice, ColumnFiles[] files) {
    long opened = 1;
    for (ColumnFiles column : files) {
      opened += column.states().length;
    }
    return bytes(slice, files) + OPEN_BYTES * opened;
  }

  /** Gives a slice to this task as far as it has room, in whole batches, and the rest to the next ones. */
  private void divide(PlannedSlice slice, ColumnFiles[] files, long cost) {
    long[] ranges = slice.ranges();
    long left = slice.covered();
    long rest = cost;
    ParquetFooter groups = rest > room + target / 8 ? groups(slice) : null;
    while (rest > room + target / 8 && left > LocationColumn.MOST_ROWS) {
      long rows = fitting((long) ((double) left * room / rest), ranges, groups);
      if (task.isEmpty() && rows >= left) {
        break;
      }
      if (rows > 0 && rows < left) {
        add(slice, RowRanges.first(ranges, rows), files);
        ranges = RowRanges.without(ranges, rows);
        rest = (long) ((double) rest * (left - rows) / left);
        left -= rows;
      }
      end();
    }
    if (rest > room && !task.isEmpty() && room < target / 8) {
      end();
    }
    add(slice, ranges, files);
    room -= rest;
    if (room <= 0) {
      end();
    }
  }

  /** How many rows are a part for this task: of files whole batches, of Parquet whole row groups; 0: none. */
  private long fitting(long wanted, long[] ranges, ParquetFooter groups) {
    if (groups != null) {
      long rows = groups.fitting(ranges, wanted);
      return rows <= wanted || task.isEmpty() ? rows : 0;
    }
    long rows = wanted / LocationColumn.MOST_ROWS * LocationColumn.MOST_ROWS;
    return rows == 0 && task.isEmpty() ? LocationColumn.MOST_ROWS : rows;
  }

  /** Of a slice in Parquet; null: it is none, or the task that reads it has an error to tell. */
  private static ParquetFooter groups(PlannedSlice slice) {
    try {
      return slice.inParquet() ? ParquetFooter.of(slice.location()) : null;
    } catch (IOException error) {
      return null;
    }
  }

  private void add(PlannedSlice slice, long[] ranges, ColumnFiles[] files) {
    PickedRows picked = slice.picked() == null ? null : slice.picked().within(ranges);
    task.add(new TaskSlice(slice.location(), ranges, picked, slice.newer(), files, slice.parquet()));
  }

  private void end() {
    if (!task.isEmpty()) {
      tasks.add(new ReadTask(task.toArray(TaskSlice[]::new)));
      task.clear();
    }
    room = target;
  }
}
