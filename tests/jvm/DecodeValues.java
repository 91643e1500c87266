import io.sparkhaven.spark.codings.DamagedValue;
import io.sparkhaven.spark.codings.Decoders;
import io.sparkhaven.spark.codings.RefusedValue;
import io.sparkhaven.spark.codings.ValueDecoder;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.StringJoiner;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;

/**
 * Decodes the values of a file, a line of standard output each: a text of the value, or how it was refused.
 *
 * <p>The file has for each column its decoder's words and its Spark type as JSON, each behind its length in four bytes,
 * then a number of values, and each of them behind its length.
 */
public final class DecodeValues {
  public static void main(String[] words) throws IOException {
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    try (DataInputStream in = new DataInputStream(Files.newInputStream(Path.of(words[0])))) {
      while (in.available() > 0) {
        ValueDecoder decoder = Decoders.of(text(in));
        DataType type = DataType.fromJson(text(in));
        OnHeapColumnVector vector = new OnHeapColumnVector(3, type);
        int count = in.readInt();
        for (int number = 0; number < count; number++) {
          byte[] value = new byte[in.readInt() + 2]; // not at the begin, and not up to the end
          in.readFully(value, 1, value.length - 2);
          value[0] = value[value.length - 1] = (byte) (31 * number);
          vector.reset();
          out.println(decoded(decoder, value, vector, type));
        }
      }
    }
    out.flush();
  }

  private static String text(DataInputStream in) throws IOException {
    return new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
  }

  private static String decoded(ValueDecoder decoder, byte[] value, OnHeapColumnVector vector, DataType type) {
    try {
      decoder.decode(value, 1, value.length - 2, vector, 1);
      return shown(vector, 1, type);
    } catch (DamagedValue damaged) {
      return "damaged";
    } catch (RefusedValue refused) {
      return "refused: " + refused.getMessage() + "|" + refused.expected + "|" + refused.value + "|" + refused.hint;
    }
  }

  private static String shown(ColumnVector vector, int row, DataType type) {
    if (vector.isNullAt(row)) {
      return "null";
    }
    if (type instanceof ArrayType list) {
      ColumnarArray array = vector.getArray(row);
      StringJoiner joined = new StringJoiner(",", "[", "]");
      for (int index = 0; index < array.numElements(); index++) {
        joined.add(shown(vector.getChild(0), offset(vector, row) + index, list.elementType()));
      }
      return joined.toString();
    }
    if (type instanceof MapType map) {
      ColumnarMap entries = vector.getMap(row);
      StringJoiner joined = new StringJoiner(",", "{", "}");
      for (int index = offset(vector, row); index < offset(vector, row) + entries.numElements(); index++) {
        String key = shown(vector.getChild(0), index, map.keyType());
        joined.add(key + "=" + shown(vector.getChild(1), index, map.valueType()));
      }
      return joined.toString();
    }
    if (type instanceof DecimalType decimal) {
      return vector.getDecimal(row, decimal.precision(), decimal.scale()).toJavaBigDecimal().toPlainString();
    }
    if (type instanceof StringType) {
      return HexFormat.of().formatHex(vector.getUTF8String(row).getBytes());
    }
    if (type instanceof BinaryType) {
      return HexFormat.of().formatHex(vector.getBinary(row));
    }
    if (type instanceof DoubleType) {
      return Long.toHexString(Double.doubleToLongBits(vector.getDouble(row)));
    }
    if (type instanceof FloatType) {
      return Integer.toHexString(Float.floatToIntBits(vector.getFloat(row)));
    }
    if (type instanceof BooleanType) {
      return vector.getBoolean(row) ? "true" : "false";
    }
    if (type instanceof ShortType) {
      return Short.toString(vector.getShort(row));
    }
    if (type instanceof IntegerType || type instanceof DateType) {
      return Integer.toString(vector.getInt(row));
    }
    return Long.toString(vector.getLong(row));
  }

  private static int offset(ColumnVector vector, int row) {
    return ((OnHeapColumnVector) vector).getArrayOffset(row);
  }
}
