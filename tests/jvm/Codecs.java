import java.io.*;
import java.math.*;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import java.util.function.Function;
import java.util.stream.*;

/**
 * Columns with codecs by the classes of the JDK alone. {@code write DIR} writes the files of a column a codec, and
 * prints a line a row: column, value. {@code read DIR COLUMN…} prints the values of columns of arrays, by
 * ObjectInputStream.
 */
public class Codecs {
    static final int PREFIX = 4096;
    static Path directory;
    static int columns;

    public static void main(String[] args) throws Exception {
        directory = Path.of(args[1]);
        if (args[0].equals("write")) {
            write();
        } else {
            for (String name : Arrays.copyOfRange(args, 2, args.length)) {
                read(name);
            }
        }
    }

    // --- values ----------------------------------------------------------------------------------------------

    static void write() throws Exception {
        Object[] days = {LocalDate.EPOCH, LocalDate.of(1969, 12, 31), LocalDate.of(0, 1, 1), LocalDate.of(9999, 12, 31),
            LocalDate.of(2000, 2, 29), null, LocalDate.of(1, 1, 1)};
        fixed("Compact", "java.time.LocalDate", 3, "ff0000", day -> date((LocalDate) day, 0, 3), days);
        fixed("Full", "java.time.LocalDate", 5, "ff00000000", day -> date((LocalDate) day, 999_999_999, 5), days);
        clocks("Nanos", 9, 30, 6, 1);
        clocks("Micros", 6, 20, 5, 1_000);
        clocks("Millis", 3, 10, 4, 1_000_000);
        clocks("Seconds", 0, 0, 3, 1_000_000_000);
        decimals("Narrow", 18, 6, 9);
        decimals("Middle", 38, 10, 17);
        decimals("Wide", 76, 20, 33);
        String whole = "java.math.BigInteger";
        Object[] numbers = Stream.of("0", "1", "-1", "127", "128", "-128", "-129", "255", "99999999999999999999",
            "-99999999999999999999").map(BigInteger::new).toArray();
        fixed("Whole", whole, 10, "00" + "ff".repeat(9), n -> number((BigInteger) n, 10), with(numbers, (Object) null));
        blob("Huge", whole, n -> free(new BigDecimal((BigInteger) n)),
            with(numbers, null, BigInteger.TEN.pow(80), BigInteger.TWO.pow(255).negate()));
        blob("Free", "java.math.BigDecimal", n -> free(((BigDecimal) n).stripTrailingZeros()),
            Stream.of("0", "0.00", "12.34", "-0.001", "1E+60", "-128", "100", "7E-50", "12.3400").map(BigDecimal::new)
                .toArray());
        Object[] bytes = {new byte[] {0}, null, new byte[] {-1, 0, 127, -128}, filled(300)};
        blob("Raw", "[B", value -> (byte[]) value, bytes);
        fixed("Key", "[B", 5, "ff00000000", value -> join(new byte[] {0}, (byte[]) value), null, filled(4), bytes[2]);
        blob("Bytes", "[B", Codecs::stream, with(bytes, new byte[0]));
        blob("Flags", "[Z", Codecs::stream, new boolean[] {true, false}, null, new boolean[0]);
        blob("Units", "[C", Codecs::stream, new char[] {'A', 0, 0xFFFE, 0xFFFF, 0xD800}, null, new char[0]);
        blob("Shorts", "[S", Codecs::stream, new short[] {0, -1, -32767, 32767, -32768}, null, new short[0]);
        blob("Ints", "[I", Codecs::stream, new int[] {0, -1, -2147483647, 2147483647, 1 << 31}, null, new int[0]);
        blob("Longs", "[J", Codecs::stream, new long[] {0, -1, 1 - Long.MAX_VALUE, Long.MAX_VALUE, Long.MIN_VALUE}, null,
            new long[0], LongStream.range(0, 5000).toArray());
        blob("Floats", "[F", Codecs::stream, new float[] {0f, -0f, Float.NaN, 1 / 0f, -1 / 0f, Float.MIN_VALUE,
            Float.MAX_VALUE, -Float.MAX_VALUE}, null, new float[0]);
        blob("Doubles", "[D", Codecs::stream, new double[] {0.0, -0.0, Double.NaN, 1 / 0.0, -1 / 0.0, Double.MIN_VALUE,
            Double.MAX_VALUE, -Double.MAX_VALUE, 0.1}, null, new double[0]);
        String one = "one", far = "\u00e9".repeat(40_000);
        blob("Texts", "[Ljava.lang.String;", Codecs::stream, new String[] {one, null, one, new String(one), "", "\0",
            "\u00e9", "\uffee", "\ud83d\ude00", one}, null, new String[0], new String[] {null},
            new String[] {far, one, far, one, far});
        Instant moment = Instant.ofEpochSecond(1_700_000_000L, 123_456_789), last = Instant.ofEpochSecond(
            Long.MAX_VALUE / 1_000_000_000L, Long.MAX_VALUE % 1_000_000_000L);
        blob("Moments", "[Ljava.time.Instant;", Codecs::stream, new Instant[] {Instant.EPOCH, null, moment, moment, last},
            null, new Instant[0], new Instant[] {null}, new Instant[] {null, Instant.ofEpochSecond(-1, 1), moment});
        Map<String, Double> weights = new LinkedHashMap<>();
        weights.put("a", 1.5);
        weights.put("", -0.0);
        weights.put("\ud83d\ude00", null);
        blob("Weights", "java.util.Map", map -> entries((Map<?, ?>) map), weights, null, new LinkedHashMap<>());
    }

    static void clocks(String name, int digits, int bits, int width, long unit) throws Exception {
        long day = 86_400_000_000_000L;
        Object[] times = {LocalTime.MIN, LocalTime.ofNanoOfDay(day - unit), null, LocalTime.of(13, 30, 1),
            LocalTime.ofNanoOfDay(45_296_123_456_789L / unit * unit)};
        fixed(name, "java.time.LocalTime", width, "80" + "00".repeat(width - 1), value -> {
            LocalTime time = (LocalTime) value;
            long packed = (((long) time.getHour() << 12 | time.getMinute() << 6 | time.getSecond()) << bits)
                | time.getNano() / unit;
            return last(ByteBuffer.allocate(8).putLong(packed).array(), width);
        }, times);
    }

    static void decimals(String name, int precision, int scale, int width) throws Exception {
        BigInteger most = BigInteger.TEN.pow(precision).subtract(BigInteger.ONE);
        Object[] values = Stream.of(most, most.negate(), BigInteger.ZERO, BigInteger.ONE, BigInteger.ONE.negate(),
            BigInteger.valueOf(1L << 40)).map(n -> new BigDecimal(n, scale)).toArray();
        fixed(name, "java.math.BigDecimal", width, "00" + "ff".repeat(width - 1),
            value -> number(((BigDecimal) value).setScale(scale).unscaledValue(), width), with(values, (Object) null));
    }

    static byte[] filled(int size) {
        byte[] bytes = new byte[size];
        Arrays.fill(bytes, (byte) 0xAC);
        return bytes;
    }

    static Object[] with(Object[] values, Object... more) {
        return Stream.concat(Arrays.stream(values), Arrays.stream(more)).toArray();
    }

    // --- codecs ----------------------------------------------------------------------------------------------

    static byte[] date(LocalDate day, int offset, int width) {
        long packed = (long) (day.getYear() + offset) << 9 | day.getMonthValue() << 5 | day.getDayOfMonth();
        return last(ByteBuffer.allocate(8).putLong(packed).array(), width);
    }

    /** A sign, then the magnitude, whose bits are inverted below zero. */
    static byte[] number(BigInteger number, int width) {
        byte[] entry = last(join(new byte[width], number.abs().toByteArray()), width);
        entry[0] = (byte) (number.signum() < 0 ? 0 : 1);
        for (int place = 1; number.signum() < 0 && place < width; place++) {
            entry[place] = (byte) ~entry[place];
        }
        return entry;
    }

    static byte[] free(BigDecimal number) {
        byte[] unscaled = number.unscaledValue().toByteArray();
        return ByteBuffer.allocate(4 + unscaled.length).putInt(number.scale()).put(unscaled).array();
    }

    static byte[] entries(Map<?, ?> map) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.writeBytes(ByteBuffer.allocate(4).putInt(map.size()).array());
        map.forEach((key, value) -> {
            byte[] text = ((String) key).getBytes(StandardCharsets.UTF_8);
            double number = value == null ? -Double.MAX_VALUE : (Double) value;
            out.writeBytes(ByteBuffer.allocate(12 + text.length).putInt(text.length).put(text).putDouble(number).array());
        });
        return out.toByteArray();
    }

    static byte[] stream(Object value) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (ObjectOutputStream stream = new ObjectOutputStream(out)) {
            stream.writeObject(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return out.toByteArray();
    }

    static byte[] join(byte[] first, byte[] second) {
        byte[] both = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, both, first.length, second.length);
        return both;
    }

    static byte[] last(byte[] bytes, int count) {
        return Arrays.copyOfRange(bytes, bytes.length - count, bytes.length);
    }

    // --- files -----------------------------------------------------------------------------------------------

    static void fixed(String name, String type, int width, String none, Function<Object, byte[]> codec, Object... values)
            throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (Object value : values) {
            out.writeBytes(value == null ? HexFormat.of().parseHex(none) : codec.apply(value));
            show(name, value);
        }
        Files.write(directory.resolve(name + ".dat"), join(prefix(type, width), out.toByteArray()));
    }

    static void blob(String name, String type, Function<Object, byte[]> codec, Object... values) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteBuffer ends = ByteBuffer.allocate(8 * values.length).order(ByteOrder.LITTLE_ENDIAN);
        for (Object value : values) {
            out.writeBytes(value == null ? new byte[0] : codec.apply(value));
            ends.putLong(out.size());
            show(name, value);
        }
        Files.write(directory.resolve(name + ".dat"), join(prefix(type, 8), ends.array()));
        Files.write(directory.resolve(name + ".bytes"), out.toByteArray());
    }

    /** Each value is an object of its own, since a file has no references to values. */
    @SuppressWarnings("removal")
    static byte[] prefix(String type, int width) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("version", new Integer(1));
        map.put("byteOrder", "LITTLE_ENDIAN");
        map.put("dataOffset", new Long(PREFIX));
        map.put("dataType", type);
        map.put("width", new Integer(width));
        map.put("columnId", new Integer(columns++));
        map.put("overflow", false);
        map.put("metadata", null);
        return Arrays.copyOf(stream(map), PREFIX);
    }

    static void read(String name) throws Exception {
        byte[] data = Files.readAllBytes(directory.resolve(name + ".bytes"));
        ByteBuffer ends = ByteBuffer.wrap(Files.readAllBytes(directory.resolve(name + ".dat")))
            .order(ByteOrder.LITTLE_ENDIAN).position(PREFIX);
        for (int start = 0; ends.hasRemaining();) {
            int end = (int) ends.getLong();
            InputStream in = new ByteArrayInputStream(data, start, end - start);
            show(name, start == end ? null : new ObjectInputStream(in).readObject());
            if (in.available() > 0) {
                throw new IOException(name + " has more than a value before byte " + end);
            }
            start = end;
        }
    }

    // --- what is printed -------------------------------------------------------------------------------------

    static void show(String name, Object value) {
        System.out.println(name + "\t" + text(value));
    }

    /** Numbers with a fraction as their bits, texts and bytes in hexadecimal, null values of Deephaven as null. */
    static String text(Object value) {
        if (value == null) {
            return "null";
        } else if (value instanceof LocalDate day) {
            return "" + day.toEpochDay();
        } else if (value instanceof LocalTime time) {
            return "" + time.toNanoOfDay();
        } else if (value instanceof Instant moment) {
            return BigDecimal.valueOf(moment.getEpochSecond()).scaleByPowerOfTen(9)
                .add(BigDecimal.valueOf(moment.getNano())).toPlainString();
        } else if (value instanceof BigDecimal number) {
            return number.toPlainString();
        } else if (value instanceof byte[] bytes) {
            return "x" + HexFormat.of().formatHex(bytes);
        } else if (value instanceof String text) {
            return "x" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
        } else if (value instanceof Double number) {
            return number == -Double.MAX_VALUE ? "null" : "" + Double.doubleToLongBits(number);
        } else if (value instanceof Float number) {
            return number == -Float.MAX_VALUE ? "null" : "" + Float.floatToIntBits(number);
        } else if (value instanceof Character unit) {
            return unit == 0xFFFF ? "null" : "" + (int) unit;
        } else if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(e -> text(e.getKey()) + "=" + text(e.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
        } else if (value.getClass().isArray()) {
            return IntStream.range(0, java.lang.reflect.Array.getLength(value))
                .mapToObj(place -> text(java.lang.reflect.Array.get(value, place)))
                .collect(Collectors.joining(", ", "[", "]"));
        }
        boolean none = value.equals(Short.MIN_VALUE) || value.equals(Integer.MIN_VALUE) || value.equals(Long.MIN_VALUE);
        return none ? "null" : value.toString();
    }
}
