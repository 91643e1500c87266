package io.sparkhaven.spark.pushdown;

import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.plan.PlannedSlice;
import io.sparkhaven.spark.plan.RangeStatistics;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/** An aggregate over slices, out of the plan. */
interface SliceAggregate {
  /** Of the result. */
  DataType type();

  /** Whether the plan tells it of these slices. */
  boolean known(List<PlannedSlice> slices);

  /** The result in the form that Spark has inside. */
  Object result(List<PlannedSlice> slices);

  /** Whether statistics are there of exactly the rows of a slice. */
  static boolean covers(PlannedSlice slice, List<RangeStatistics> ranges) {
    long covered = slice.start();
    for (RangeStatistics range : ranges) {
      if (range.start() != covered) {
        return false;
      }
      covered = range.stop();
    }
    return covered == slice.stop() && slice.whole();
  }

  /** Number of rows. */
  record Rows() implements SliceAggregate {
    @Override
    public DataType type() {
      return DataTypes.LongType;
    }

    @Override
    public boolean known(List<PlannedSlice> slices) {
      return true;
    }

    @Override
    public Object result(List<PlannedSlice> slices) {
      return slices.stream().mapToLong(PlannedSlice::count).sum();
    }
  }

  /** Number of rows in which a column is not null. */
  record Values(PlannedColumn column) implements SliceAggregate {
    @Override
    public DataType type() {
      return DataTypes.LongType;
    }

    @Override
    public boolean known(List<PlannedSlice> slices) {
      return slices.stream().allMatch(slice -> covers(slice, slice.statistics(column.name())));
    }

    @Override
    public Object result(List<PlannedSlice> slices) {
      long values = 0;
      for (PlannedSlice slice : slices) {
        values += slice.count();
        for (RangeStatistics range : slice.statistics(column.name())) {
          values -= range.nulls();
        }
      }
      return values;
    }
  }

  /** The least or ({@code greatest}) the greatest value; null where there is none. NaN is the greatest. */
  record Extreme(PlannedColumn column, ValueOrder order, boolean greatest) implements SliceAggregate {
    @Override
    public DataType type() {
      return column.type();
    }

    @Override
    public boolean known(List<PlannedSlice> slices) {
      for (PlannedSlice slice : slices) {
        List<RangeStatistics> ranges = slice.statistics(column.name());
        if (!covers(slice, ranges) || !ranges.stream().allMatch(this::isBounded)) {
          return false;
        }
      }
      return !(extreme(slices) instanceof Double zero && zero == 0); // which of both zeros is not known
    }

    private boolean isBounded(RangeStatistics range) {
      boolean values = range.nulls() + range.nans() < range.stop() - range.start();
      return !values || range.low() != null && order.bound(range.low()) != null && order.bound(range.high()) != null;
    }

    @Override
    public Object result(List<PlannedSlice> slices) {
      Object extreme = extreme(slices);
      if (extreme instanceof BigInteger units && column.type() instanceof DecimalType decimals) {
        return Decimal.apply(new BigDecimal(units, decimals.scale()), decimals.precision(), decimals.scale());
      }
      if (!(extreme instanceof Long number)) {
        return extreme instanceof Double number && column.type().equals(DataTypes.FloatType)
            ? (Object) number.floatValue()
            : extreme;
      }
      if (column.type().equals(DataTypes.BooleanType)) {
        return number != 0;
      }
      if (column.type().equals(DataTypes.ByteType)) {
        return number.byteValue();
      }
      if (column.type().equals(DataTypes.ShortType)) {
        return number.shortValue();
      }
      boolean four = column.type().equals(DataTypes.IntegerType) || column.type().equals(DataTypes.DateType);
      return four ? (Object) number.intValue() : number;
    }

    private Object extreme(List<PlannedSlice> slices) {
      Object extreme = null;
      for (PlannedSlice slice : slices) {
        for (RangeStatistics range : slice.statistics(column.name())) {
          if (range.low() != null && order.bound(range.low()) != null) {
            extreme = further(extreme, order.bound(greatest ? range.high() : range.low()));
          }
          if (range.nans() > 0) {
            extreme = further(extreme, Double.NaN);
          }
        }
      }
      return extreme;
    }

    private Object further(Object extreme, Object value) {
      if (extreme == null) {
        return value;
      }
      int sign = order.compare(value, extreme);
      return (greatest ? sign > 0 : sign < 0) ? value : extreme;
    }
  }
}
