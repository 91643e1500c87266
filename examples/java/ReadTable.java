import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.IntFunction;
import java.util.function.LongFunction;
import java.util.stream.Collectors;

/**
 * Prints the rows of one location, by the JDK alone: {@code java ReadTable.java DIRECTORY}.
 *
 * <p>A second implementation of the format, written from docs/format. It takes one thing after the other as location.md
 * says: table.size, table.tbl, then each column.
 */
public final class ReadTable {
    public static void main(String[] arguments) throws Exception {
        Path location = Path.of(arguments[0]);
        Map<?, ?> size = (Map<?, ?>) object(Files.readAllBytes(location.resolve("table.size")));
        int rows = Math.toIntExact((Long) size.get("size"));
        List<String> names = new ArrayList<>();
        List<IntFunction<Object>> columns = new ArrayList<>();
        for (Definition definition : Definition.of(Files.readAllBytes(location.resolve("table.tbl")))) {
            if (definition.role == 4) {
                continue; // the partitioning column has no files
            }
            names.add(definition.name);
            columns.add(new Column(location, definition, rows, (Map<?, ?>) size.get("dataFileSizes")).values());
        }
        System.out.println(String.join("\t", names));
        for (int row = 0; row < rows; row++) {
            int number = row;
            System.out.println(columns.stream().map(c -> shown(c.apply(number))).collect(Collectors.joining("\t")));
        }
    }

    static String shown(Object value) {
        return value instanceof byte[] bytes ? Base64.getEncoder().encodeToString(bytes)
                : value instanceof Object[] values ? Arrays.toString(values)
                : value instanceof BigDecimal number ? number.toPlainString()
                : String.valueOf(value);
    }

    /** What a Java stream holds. Only classes of java.* are in it. */
    static Object object(byte[] stream) throws IOException, ClassNotFoundException {
        return new ObjectInputStream(new ByteArrayInputStream(stream)).readObject();
    }

    /** One column of a location: column-file.md. */
    static final class Column {
        private final Definition definition;
        private final Path location;
        private final Map<?, ?> sizes;
        private ByteOrder order;
        private ByteBuffer data;
        private int width;
        private Charset charset = StandardCharsets.ISO_8859_1;

        Column(Path location, Definition definition, int rows, Map<?, ?> sizes) throws Exception {
            this.location = location;
            this.definition = definition;
            this.sizes = sizes;
            String name = definition.name + ".dat";
            if (!sizes.containsKey(name)) {
                return; // null in every row
            }
            byte[] file = Files.readAllBytes(location.resolve(name));
            Map<?, ?> prefix = (Map<?, ?>) object(file);
            order = prefix.get("byteOrder").equals("BIG_ENDIAN") ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN;
            width = (Integer) prefix.get("width");
            if (prefix.get("encoding") != null) {
                charset = Charset.forName(((String) prefix.get("encoding")).replace('_', '-'));
            }
            long length = (Long) sizes.get(name);
            if (length != (long) rows * width) {
                throw new IOException(name + ": " + length + " bytes are not " + rows + " rows of " + width);
            }
            int start = Math.toIntExact((Long) prefix.get("dataOffset"));
            data = ByteBuffer.wrap(file, start, Math.toIntExact(length)).slice().order(order);
        }

        IntFunction<Object> values() throws Exception {
            if (data == null) {
                return row -> null;
            }
            return switch (definition.type) {
                case "byte" -> row -> nullable(data.get(row), Byte.MIN_VALUE);
                case "short" -> row -> nullable(data.getShort(2 * row), Short.MIN_VALUE);
                case "int" -> row -> nullable(data.getInt(4 * row), Integer.MIN_VALUE);
                case "long" -> row -> nullable(data.getLong(8 * row), Long.MIN_VALUE);
                case "char" -> row -> nullable(data.getChar(2 * row), Character.MAX_VALUE);
                case "float" -> row -> nullable(data.getFloat(4 * row), -Float.MAX_VALUE);
                case "double" -> row -> nullable(data.getDouble(8 * row), -Double.MAX_VALUE);
                case "java.lang.Boolean" -> row -> data.get(row) == -1 ? null : (Object) (data.get(row) != 0);
                case "io.deephaven.db.tables.utils.DBDateTime" -> row -> instant(data.getLong(8 * row));
                case "java.lang.String" -> width == 4 ? symbols() : blobs(this::text);
                case "io.deephaven.db.tables.libs.StringSet" -> sets();
                default -> coded();
            };
        }

        private static Object nullable(Object value, Object none) {
            return value.equals(none) ? null : value;
        }

        private static Object instant(long nanoseconds) {
            return nanoseconds == Long.MIN_VALUE ? null : Instant.EPOCH.plusNanos(nanoseconds);
        }

        /** texts.md: a single zero byte is the empty text. */
        private Object text(byte[] bytes) {
            return bytes.length == 1 && bytes[0] == 0 ? "" : new String(bytes, charset);
        }

        private IntFunction<Object> symbols() throws Exception {
            List<Object> table = table();
            return row -> data.getInt(4 * row) == Integer.MIN_VALUE ? null : table.get(data.getInt(4 * row));
        }

        private IntFunction<Object> sets() throws Exception {
            List<Object> table = table();
            return row -> {
                TreeSet<String> texts = new TreeSet<>();
                for (int bit = 0; bit < 64; bit++) {
                    if ((data.getLong(8 * row) >>> bit & 1) == 1) {
                        texts.add((String) table.get(bit));
                    }
                }
                return texts;
            };
        }

        private List<Object> table() throws Exception {
            ByteBuffer ends = ByteBuffer.wrap(committed(".sym")).order(order);
            byte[] bytes = committed(".sym.bytes");
            List<Object> table = new ArrayList<>();
            int start = 0;
            while (ends.hasRemaining()) {
                int end = Math.toIntExact(ends.getLong());
                table.add(end == start ? null : text(Arrays.copyOfRange(bytes, start, end)));
                start = end;
            }
            return table;
        }

        interface Decoder {
            Object decode(byte[] bytes) throws Exception;
        }

        private IntFunction<Object> blobs(Decoder decoder) throws Exception {
            byte[] bytes = committed(".bytes");
            return row -> {
                int start = row == 0 ? 0 : Math.toIntExact(data.getLong(8 * (row - 1)));
                int end = Math.toIntExact(data.getLong(8 * row));
                try {
                    return start == end ? null : decoder.decode(Arrays.copyOfRange(bytes, start, end));
                } catch (Exception error) {
                    throw new IllegalStateException("column " + definition.name + ", row " + row, error);
                }
            };
        }

        private byte[] committed(String suffix) throws IOException {
            String name = definition.name + suffix;
            return Arrays.copyOf(Files.readAllBytes(location.resolve(name)), Math.toIntExact((Long) sizes.get(name)));
        }

        /** codecs.md. */
        private IntFunction<Object> coded() throws Exception {
            String codec = definition.codec.replaceAll(".*\\.", "").replace("\0", ""); // NUL is unset
            String[] given = definition.arguments.equals("\0") ? new String[0] : definition.arguments.split(",");
            long first = given.length > 0 && given[0].equals("Compact") ? 0 : 999_999_999;
            if (codec.equals("LocalDateCodec")) {
                return fixed((byte) 0xFF, number -> LocalDate.of(
                        (int) ((number >> 9) - first), (int) (number >> 5 & 15), (int) (number & 31)));
            }
            if (codec.equals("LocalTimeCodec")) {
                int digits = given.length > 0 ? Integer.parseInt(given[0]) : 9;
                int bits = (int) Math.ceil(digits * Math.log(10) / Math.log(2));
                return fixed((byte) 0x80, number -> LocalTime.of(
                        (int) (number >> 12 + bits), (int) (number >> 6 + bits & 63), (int) (number >> bits & 63),
                        (int) ((number & (1L << bits) - 1) * (long) Math.pow(10, 9 - digits))));
            }
            if (codec.equals("BigDecimalCodec") || codec.equals("BigIntegerCodec")) {
                int scale = given.length > 1 ? Integer.parseInt(given[1]) : 0;
                return given.length > 0 ? row -> decimal(entry(row), scale) : blobs(bytes -> new BigDecimal(
                        new BigInteger(bytes, 4, bytes.length - 4), ByteBuffer.wrap(bytes).getInt()));
            }
            if (codec.startsWith("String") && codec.endsWith("MapCodec")) {
                return blobs(bytes -> map(bytes, codec));
            }
            if (codec.equals("ByteArrayCodec") && given.length > 0) {
                return row -> bytes(entry(row), given.length == 1);
            }
            boolean stream = codec.isEmpty() && definition.type.startsWith("[");
            return stream ? blobs(bytes -> array(object(bytes))) : blobs(bytes -> bytes);
        }

        private byte[] entry(int row) {
            byte[] entry = new byte[width];
            data.get(row * width, entry);
            return entry;
        }

        /** Entries that are one number; {@code none} is the first byte of null. */
        private IntFunction<Object> fixed(byte none, LongFunction<Object> value) {
            return row -> entry(row)[0] == none ? null : value.apply(new BigInteger(1, entry(row)).longValue());
        }

        private static Object decimal(byte[] entry, int scale) {
            boolean below = entry[0] == 0;
            entry[0] = (byte) (below ? 0xFF : 0); // inverted bits are one less in two's complement
            BigInteger unscaled = new BigInteger(entry).add(below ? BigInteger.ONE : BigInteger.ZERO);
            return below && unscaled.signum() == 0 ? null : new BigDecimal(unscaled, scale);
        }

        private static Object bytes(byte[] entry, boolean flag) {
            return !flag ? entry : entry[0] == (byte) 0xFF ? null : Arrays.copyOfRange(entry, 1, entry.length);
        }

        private static Object map(byte[] bytes, String codec) {
            ByteBuffer in = ByteBuffer.wrap(bytes);
            Map<String, Object> map = new LinkedHashMap<>();
            for (int entries = in.getInt(); entries > 0; entries--) {
                String key = utf8(in);
                switch (codec) {
                    case "StringDoubleMapCodec" -> map.put(key, nullable(in.getDouble(), -Double.MAX_VALUE));
                    case "StringFloatMapCodec" -> map.put(key, nullable(in.getFloat(), -Float.MAX_VALUE));
                    case "StringIntMapCodec" -> map.put(key, nullable(in.getInt(), Integer.MIN_VALUE));
                    case "StringLongMapCodec" -> map.put(key, nullable(in.getLong(), Long.MIN_VALUE));
                    case "StringStringMapCodec" -> map.put(key, utf8(in));
                    default -> {
                        byte flag = in.get();
                        map.put(key, flag == -1 ? null : (Object) (flag != 0));
                    }
                }
            }
            return map;
        }

        private static String utf8(ByteBuffer in) {
            byte[] text = new byte[in.getInt()];
            in.get(text);
            return new String(text, StandardCharsets.UTF_8);
        }

        /** An array of objects, null where an element is the null of its type; byte[] as it is. */
        private static Object array(Object array) {
            Map<Class<?>, Object> none = Map.of(
                    short[].class, Short.MIN_VALUE, int[].class, Integer.MIN_VALUE, long[].class, Long.MIN_VALUE,
                    char[].class, Character.MAX_VALUE, float[].class, -Float.MAX_VALUE,
                    double[].class, -Double.MAX_VALUE);
            if (array instanceof byte[] || array instanceof Object[]) {
                return array;
            }
            Object[] values = new Object[java.lang.reflect.Array.getLength(array)];
            for (int i = 0; i < values.length; i++) {
                values[i] = nullable(java.lang.reflect.Array.get(array, i), none.getOrDefault(array.getClass(), ""));
                values[i] = values[i] instanceof Character unit ? (int) unit : values[i];
            }
            return values;
        }
    }

    /** One column of a table.tbl: definition.md. */
    record Definition(String name, String type, int role, String codec, String arguments) {
        static List<Definition> of(byte[] file) throws IOException {
            Stream stream = new Stream(file);
            List<Object> contents = new ArrayList<>();
            while (contents.size() < 4) {
                contents.add(stream.content()); // block, column sets, block, columns
            }
            List<Definition> columns = new ArrayList<>();
            for (Object column : (List<?>) contents.get(3)) {
                List<?> body = (List<?>) column;
                DataInputStream name = block(body.get(0));
                DataInputStream rest = block(body.get(5));
                int role = block(body.get(3)).readInt();
                rest.readInt(); // the charset: prefixes have it
                columns.add(new Definition(name.readUTF(), (String) body.get(1), role, rest.readUTF(), rest.readUTF()));
            }
            return columns;
        }

        private static DataInputStream block(Object bytes) {
            return new DataInputStream(new ByteArrayInputStream((byte[]) bytes));
        }
    }

    /** java-streams.md, as far as a definition needs it: blocks are bytes, classes names, objects and arrays lists. */
    static final class Stream {
        private record Description(String name, int flags, List<String> fields, Description parent) {}

        private static final Object END = new Object();
        private final DataInputStream in;
        private final List<Object> handles = new ArrayList<>();

        Stream(byte[] file) {
            in = new DataInputStream(new ByteArrayInputStream(file));
        }

        /** The next content; null, also at a reset, which is passed over before the next. */
        Object content() throws IOException {
            int tag = in.readUnsignedByte();
            return switch (tag) {
                case 0x70 -> null;
                case 0x71 -> handles.get(in.readInt() - 0x7E0000);
                case 0x73 -> body(description(in.readUnsignedByte()), add(new ArrayList<>()));
                case 0x74 -> add(in.readUTF());
                case 0x75 -> {
                    description(in.readUnsignedByte());
                    List<Object> elements = add(new ArrayList<>());
                    for (int count = in.readInt(); count > 0; count--) {
                        elements.add(content());
                    }
                    yield elements;
                }
                case 0x76 -> add(description(in.readUnsignedByte()).name);
                case 0x77 -> in.readNBytes(in.readUnsignedByte());
                case 0x7A -> in.readNBytes(in.readInt());
                case 0x78 -> END;
                case 0x79 -> {
                    handles.clear();
                    yield content();
                }
                default -> throw new IOException("tag " + Integer.toHexString(tag));
            };
        }

        private <T> T add(T value) {
            handles.add(value);
            return value;
        }

        private Description description(int tag) throws IOException {
            if (tag != 0x72) { // null, or a reference
                return tag == 0x70 ? null : (Description) handles.get(in.readInt() - 0x7E0000);
            }
            String name = in.readUTF();
            in.readLong();
            int handle = handles.size();
            add(name);
            int flags = in.readUnsignedByte();
            List<String> fields = new ArrayList<>();
            for (int count = in.readUnsignedShort(); count > 0; count--) {
                char letter = (char) in.readUnsignedByte();
                fields.add(letter + in.readUTF());
                if (letter == 'L' || letter == '[') {
                    content();
                }
            }
            in.readUnsignedByte(); // 78
            Description description = new Description(name, flags, fields, description(in.readUnsignedByte()));
            handles.set(handle, description);
            return description;
        }

        private List<Object> body(Description description, List<Object> values) throws IOException {
            if (description.parent != null) {
                body(description.parent, values);
            }
            for (String field : description.fields) {
                values.add(value(field.charAt(0)));
            }
            boolean external = description.flags == 0x0C; // its superclasses have no body of their own
            if ((description.flags & 1) != 0 || external && description.parent == null) {
                for (Object next = content(); next != END; next = content()) {
                    values.add(next);
                }
            }
            return values;
        }

        private Object value(char letter) throws IOException {
            return switch (letter) {
                case 'Z' -> in.readBoolean();
                case 'I', 'F' -> in.readInt();
                default -> content();
            };
        }
    }
}
