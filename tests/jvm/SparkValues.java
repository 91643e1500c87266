import io.sparkhaven.spark.DeephavenTable;
import io.sparkhaven.spark.codings.DamagedValue;
import io.sparkhaven.spark.codings.Decoders;
import io.sparkhaven.spark.codings.ValueDecoder;
import io.sparkhaven.spark.errors.ReadFailure;
import io.sparkhaven.spark.files.Checksums;
import io.sparkhaven.spark.files.CommittedFile;
import io.sparkhaven.spark.plan.DamagedPlan;
import io.sparkhaven.spark.plan.FileState;
import io.sparkhaven.spark.plan.Plan;
import io.sparkhaven.spark.plan.PlannedColumn;
import io.sparkhaven.spark.tasks.TaskMaker;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.StringJoiner;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What the Spark reader makes of files, as text, without a Spark session.
 *
 * <p>{@code values FILE}: values, a line each. The file has for each column its decoder's words and its Spark type as
 * JSON, each behind its length in four bytes, then a number of values, and each of them behind its length.
 *
 * <p>{@code checks FILE CONTENT SIZE CRC ...}: writes each content into the one file, which stays the same to the system, and
 * compares so many of its bytes with a CRC-32: a line {@code sound}, or the error.
 *
 * <p>{@code plans FILE...}: the rows of each plan, a line each, and a line {@code end}, or the error.
 */
public final class SparkValues {
  private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

  public static void main(String[] words) throws IOException {
    if (words[0].equals("values")) {
      values(Path.of(words[1]));
    } else if (words[0].equals("checks")) {
      checks(words);
    } else {
      for (int number = 1; number < words.length; number++) {
        try {
          plan(Plan.take(Path.of(words[number])));
        } catch (DamagedPlan damaged) {
          OUT.println("Error: " + damaged.getMessage().replace("\n", "\\n"));
        }
      }
    }
    OUT.flush();
  }

  private static void plan(Plan plan) throws IOException {
    PlannedColumn[] columns = plan.columns(plan.schema().fieldNames());
    PartitionReaderFactory readers =
        new DeephavenTable(plan).newScanBuilder(CaseInsensitiveStringMap.empty()).build().toBatch().createReaderFactory();
    try {
      for (InputPartition task : TaskMaker.make(plan.slices(), columns, plan.taskBytes(), 3)) {
        try (PartitionReader<ColumnarBatch> reader = readers.createColumnarReader(task)) {
          while (reader.next()) {
            ColumnarBatch batch = reader.get();
            for (int row = 0; row < batch.numRows(); row++) {
              OUT.println(row(batch.getRow(row), columns));
            }
          }
        }
      }
      OUT.println("end");
    } catch (ReadFailure failure) {
      OUT.println(failure.getMessage().replace("\n", "\\n"));
    }
  }

  private static String row(InternalRow row, PlannedColumn[] columns) {
    StringJoiner joined = new StringJoiner(" ");
    for (int column = 0; column < columns.length; column++) {
      DataType type = columns[column].type();
      joined.add(shown(row.isNullAt(column) ? null : row.get(column, type), type));
    }
    return joined.toString();
  }

  private static void checks(String[] words) throws IOException {
    Path path = Path.of(words[1]);
    for (int number = 2; number < words.length; number += 3) {
      Files.write(path, Files.readAllBytes(Path.of(words[number])));
      long size = Long.parseLong(words[number + 1]);
      FileState state = new FileState(size, Integer.parseUnsignedInt(words[number + 2]));
      try (CommittedFile file = new CommittedFile(path, 0, state)) {
        file.checked(Checksums.of("read"));
        OUT.println("sound");
      } catch (ReadFailure failure) {
        OUT.println(failure.getMessage().lines().findFirst().orElseThrow());
      }
    }
  }

  private static void values(Path path) throws IOException {
    try (DataInputStream in = new DataInputStream(Files.newInputStream(path))) {
      while (in.available() > 0) {
        ValueDecoder decoder = Decoders.of(text(in), "C");
        DataType type = DataType.fromJson(text(in));
        OnHeapColumnVector vector = new OnHeapColumnVector(3, type);
        int count = in.readInt();
        for (int number = 0; number < count; number++) {
          byte[] value = new byte[in.readInt() + 2]; // not at the begin, and not up to the end
          in.readFully(value, 1, value.length - 2);
          value[0] = value[value.length - 1] = (byte) (31 * number);
          vector.reset();
          OUT.println(decoded(decoder, value, vector, type));
        }
      }
    }
  }

  private static String text(DataInputStream in) throws IOException {
    return new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
  }

  private static String decoded(ValueDecoder decoder, byte[] value, OnHeapColumnVector vector, DataType type)
      throws IOException {
    try {
      decoder.put(value, 1, value.length - 2, vector, 1);
      InternalRow row = new ColumnarBatch(new ColumnVector[] {vector}, 3).getRow(1);
      return shown(row.isNullAt(0) ? null : row.get(0, type), type);
    } catch (DamagedValue damaged) {
      return "damaged";
    } catch (ReadFailure refused) {
      String[] parts = refused.getMessage().replace("\n  where: column C", "").split("\n  [a-z ]+: ");
      parts[0] = parts[0].replace(refused.kind(), "refused");
      return String.join("|", parts);
    }
  }

  private static String shown(Object value, DataType type) {
    if (value == null) {
      return "null";
    }
    if (value instanceof ArrayData array) {
      return elements(array, ((ArrayType) type).elementType()).toString();
    }
    if (value instanceof MapData map) {
      DataType keys = ((MapType) type).keyType();
      return elements(map.keyArray(), keys) + "=" + elements(map.valueArray(), ((MapType) type).valueType());
    }
    if (value instanceof Decimal decimal) {
      return decimal.toJavaBigDecimal().toPlainString();
    }
    if (value instanceof UTF8String text) {
      return "'" + HexFormat.of().formatHex(text.getBytes());
    }
    if (value instanceof byte[] bytes) {
      return "'" + HexFormat.of().formatHex(bytes);
    }
    if (value instanceof Double number) {
      return Long.toHexString(Double.doubleToLongBits(number));
    }
    if (value instanceof Float number) {
      return Integer.toHexString(Float.floatToIntBits(number));
    }
    return value.toString();
  }

  private static StringJoiner elements(ArrayData array, DataType type) {
    StringJoiner joined = new StringJoiner(",", "[", "]");
    for (int index = 0; index < array.numElements(); index++) {
      joined.add(shown(array.isNullAt(index) ? null : array.get(index, type), type));
    }
    return joined;
  }
}
