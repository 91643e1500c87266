import java.io.*;
import java.lang.reflect.Field;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import javax.tools.*;

/**
 * Reads our files with a stock ObjectInputStream and prints what it finds, one line a file.
 * Arguments: directory of the stub sources, directory for their classes, then the files.
 */
public class ReadStreams {
    static final byte[] HEADER = {(byte) 0xAC, (byte) 0xED, 0, 5};

    static class Stream extends ObjectInputStream {
        final ClassLoader stubs;

        Stream(InputStream in, ClassLoader stubs) throws IOException {
            super(in);
            this.stubs = stubs;
        }

        @Override
        protected Class<?> resolveClass(ObjectStreamClass desc) throws IOException, ClassNotFoundException {
            try {
                return Class.forName(desc.getName(), false, stubs);
            } catch (ClassNotFoundException e) {
                return super.resolveClass(desc);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        ClassLoader stubs = compile(Path.of(args[0]), Path.of(args[1]));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String file : Arrays.copyOfRange(args, 2, args.length)) {
            byte[] data = Files.readAllBytes(Path.of(file));
            out.println(file.endsWith(".tbl") ? definition(data, stubs) : one(data, stubs, file.endsWith(".dat")));
        }
    }

    static ClassLoader compile(Path sources, Path classes) throws Exception {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        List<File> files;
        try (var walk = Files.walk(sources)) {
            files = walk.filter(p -> p.toString().endsWith(".java")).map(Path::toFile).toList();
        }
        var manager = compiler.getStandardFileManager(null, null, null);
        List<String> options = List.of("-d", classes.toString());
        if (!compiler.getTask(null, manager, null, options, null, manager.getJavaFileObjectsFromFiles(files)).call()) {
            throw new IllegalStateException("stubs do not compile");
        }
        return new URLClassLoader(new URL[] {classes.toUri().toURL()});
    }

    static String one(byte[] data, ClassLoader stubs, boolean padded) throws Exception {
        Stream in = new Stream(new ByteArrayInputStream(data), stubs);
        String text = show(in.readObject());
        return padded || in.read() < 0 ? text : text + " and more";
    }

    static String definition(byte[] data, ClassLoader stubs) throws Exception {
        InputStream bytes = new SequenceInputStream(new ByteArrayInputStream(HEADER), new ByteArrayInputStream(data));
        Stream in = new Stream(bytes, stubs);
        StringBuilder out = new StringBuilder();
        out.append(in.readUnsignedByte());
        for (Object set : (Object[]) in.readObject()) {
            out.append(' ').append(get(set, "name_")).append('(');
            for (Object column : (Object[]) get(set, "columns_")) {
                out.append(get(column, "index_")).append(' ').append(get(column, "name_")).append(' ');
                out.append(((Class<?>) get(column, "type_")).getName()).append(',');
            }
            out.append(((Map<?, ?>) get(set, "nameToColumn_")).size()).append(')');
        }
        out.append(' ').append(in.readUnsignedByte()).append(' ').append(in.readUnsignedByte());
        out.append(' ').append(in.readUTF()).append(' ').append(in.readUTF()).append(' ').append(in.readUTF());
        out.append(' ').append(in.readUnsignedByte());
        for (Object column : (Object[]) in.readObject()) {
            out.append(" [").append(column).append(']');
        }
        return out.append(' ').append(in.readInt()).append(in.read() < 0 ? "" : " and more").toString();
    }

    static Object get(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    static String show(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof Map<?, ?> map) {
            StringJoiner out = new StringJoiner(", ", value.getClass().getName() + "{", "}");
            map.forEach((k, v) -> out.add(show(k) + "=" + show(v)));
            return out.toString();
        }
        if (value instanceof long[] longs) {
            return Arrays.toString(longs);
        }
        if (value instanceof Character unit) {
            return "Character " + (int) unit;
        }
        if (value instanceof Double number) {
            return "Double " + Long.toHexString(Double.doubleToLongBits(number));
        }
        return value.getClass().getSimpleName() + " " + value;
    }
}
