import io.deephaven.chunk.ChunkType;
import io.deephaven.chunk.WritableByteChunk;
import io.deephaven.chunk.WritableChunk;
import io.deephaven.chunk.WritableLongChunk;
import io.deephaven.chunk.WritableObjectChunk;
import io.deephaven.chunk.attributes.Values;
import io.deephaven.engine.context.ExecutionContext;
import io.deephaven.engine.page.Page;
import io.deephaven.engine.page.PageStore;
import io.deephaven.engine.rowset.RowSequence;
import io.deephaven.engine.rowset.RowSequenceFactory;
import io.deephaven.engine.rowset.RowSet;
import io.deephaven.engine.rowset.RowSetBuilderSequential;
import io.deephaven.engine.rowset.RowSetFactory;
import io.deephaven.engine.table.ChunkSource.FillContext;
import io.deephaven.engine.table.Table;
import io.deephaven.engine.table.impl.PartitionAwareSourceTable;
import io.deephaven.engine.table.impl.PushdownFilterContext;
import io.deephaven.engine.table.impl.PushdownResult;
import io.deephaven.engine.table.impl.QueryTable;
import io.deephaven.engine.table.impl.SourceTable;
import io.deephaven.engine.table.impl.locations.ColumnLocation;
import io.deephaven.engine.table.impl.locations.TableDataException;
import io.deephaven.engine.table.impl.locations.TableLocation;
import io.deephaven.engine.table.impl.locations.TableLocationProvider;
import io.deephaven.engine.table.impl.select.MatchFilter;
import io.deephaven.engine.table.impl.select.WhereFilter;
import io.deephaven.engine.table.impl.sources.regioned.*;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.*;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.UnaryOperator;
import org.jpy.PyObject;

/**
 * The regions of a table whose columns lie in mapped memory as the engine has them: rows are copied from there to where
 * an operation wants them, and no page of them is made. What is not mapped, or has come since, is read by the engine's
 * own region of that column. Compiled by the engine when it has started, with its parts in the files beside it; what
 * stands between two marks stands there once for each type.
 */
public final class Regions {
    private static final int PART = 27; // rows of a buffer, which has at most 2 GiB: a power of two
    private static final int LEAST = 1 << 14; // rows
    private static int one = 1; // not final: see settle
    private static final int SHORT_RUN = 16; // rows; below it they are read one by one
    private static final int LAST_WAIT = 1 << 9; // seconds

    private final Set<Region<?>> regions = Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));
    private final ThreadLocal<Window> given = new ThreadLocal<>();
    private final ThreadLocal<long[]> chosen = new ThreadLocal<>();
    private final Collection<WeakReference<PyObject>> memory = new ConcurrentLinkedQueue<>(); // all that was given
    private volatile PyObject asker; // null: everything was released
    private Set<String> columns;

    /**
     * A table of the service with our regions for some columns; asker answers memory(place, column, known texts),
     * is_indexed(column) and rows(place, column, values).
     */
    public Table serve(Table made, PyObject asker, String[] columns) throws ReflectiveOperationException {
        this.asker = asker;
        this.columns = Set.copyOf(Arrays.asList(columns));
        final Map<Object, Object> places = new ConcurrentHashMap<>();
        final TableLocationProvider provider = ((SourceTable<?>) made).tableLocationProvider();
        final UnaryOperator<Object> found = location -> location instanceof TableLocation
                ? places.computeIfAbsent(location, each -> place((TableLocation) each)) : location;
        return new PartitionAwareSourceTable(made.getDefinition(), made.getDescription(),
                RegionedTableComponentFactoryImpl.INSTANCE, with(TableLocationProvider.class, provider, found),
                ExecutionContext.getContext().getUpdateGraph());
    }

    /**
     * The answer to the question that this thread asks: rows of a column. Of texts that were not known the lengths, -1
     * for null, and all bytes in UTF-8; null if there are none.
     */
    public void put(ByteBuffer[] parts, ByteBuffer lengths, ByteBuffer bytes, long rows, PyObject owner) {
        memory.add(new WeakReference<>(owner));
        given.set(new Window(parts, texts(lengths, bytes), rows, owner));
    }

    /** The answer to the question that this thread asks: starts and ends of ranges of rows, in turn. */
    public void choose(long[] bounds) {
        chosen.set(bounds);
    }

    private boolean isIndexed(String column) {
        final PyObject asked = asker;
        if (asked == null) {
            return false;
        }
        try (PyObject answer = asked.callMethod("is_indexed", column)) {
            return answer.getBooleanValue();
        }
    }

    /** Rows of a place in which a column may have one of some values; null: all. */
    private RowSet rows(PyObject place, String column, Object[] keys) {
        final PyObject asked = asker;
        if (asked == null) {
            return null;
        }
        chosen.remove();
        asked.callMethod("rows", place, column, keys).close();
        final long[] bounds = chosen.get();
        chosen.remove();
        return bounds == null ? null : KeyFilter.rows(bounds);
    }

    private static String[] texts(ByteBuffer lengths, ByteBuffer bytes) {
        if (lengths == null) {
            return new String[0];
        }
        final IntBuffer sizes = lengths.order(ByteOrder.LITTLE_ENDIAN).asIntBuffer();
        final String[] texts = new String[sizes.remaining()];
        final byte[] all = new byte[bytes == null ? 0 : bytes.remaining()];
        if (bytes != null) {
            bytes.get(all);
        }
        for (int text = 0, at = 0; text < texts.length; text++) {
            final int size = sizes.get(text);
            if (size >= 0) {
                texts[text] = new String(all, at, size, StandardCharsets.UTF_8);
                at += size;
            }
        }
        return texts;
    }

    /** Releases all memory, once nobody reads it any more; from now on the engine's own regions are asked. */
    public void release() {
        synchronized (regions) {
            regions.forEach(Region::release);
            asker = null;
        }
        final Thread collection = new Thread(this::collect, "memory of an ended table");
        collection.setDaemon(true);
        collection.start();
    }

    /** An idle engine does not collect by itself; what a read that is under way holds is left to a later time. */
    private void collect() {
        for (long seconds = 1; seconds <= LAST_WAIT; seconds *= 2) {
            System.gc();
            memory.removeIf(each -> each.get() == null);
            if (memory.isEmpty()) {
                return;
            }
            LockSupport.parkNanos(seconds * 1_000_000_000);
        }
    }

    private TableLocation place(TableLocation location) {
        try {
            final Field key = location.getKey().getClass().getDeclaredField("locationKey");
            key.setAccessible(true);
            final PyObject place = (PyObject) key.get(location.getKey());
            return with(TableLocation.class, location, found -> found instanceof ColumnLocation
                    && columns.contains(((ColumnLocation) found).getName()) ? column(place, (ColumnLocation) found)
                            : found);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("a location has no key of Python: " + location.getKey(), error);
        }
    }

    private ColumnLocation column(PyObject place, ColumnLocation column) {
        return with(ColumnLocation.class, column, made -> made instanceof PageStore
                ? region(place, column.getName(), (ColumnRegion<?>) made) : made);
    }

    private Object region(PyObject place, String column, ColumnRegion<?> made) {
        // of each type
        if (made instanceof ColumnRegionLong) {
            return new LongRegion(this, place, column, made);
        }
        // end
        return new TextRegion(this, place, column, made);
    }

    /** The same object with other results. */
    @SuppressWarnings("unchecked")
    private static <T> T with(Class<T> type, T real, UnaryOperator<Object> change) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> {
            if (method.getName().equals("equals")) {
                return self == arguments[0];
            }
            try {
                final Object result = method.invoke(real, arguments);
                return result == real ? self : change.apply(result);
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
        });
    }

    /** Memory that stays as long as its owner. */
    private static final class Window {
        final ByteBuffer[] parts;
        final String[] texts;
        final long rows;
        final PyObject owner;

        Window(ByteBuffer[] parts, String[] texts, long rows, PyObject owner) {
            this.parts = parts;
            this.texts = texts;
            this.rows = rows;
            this.owner = owner;
        }
    }
}
