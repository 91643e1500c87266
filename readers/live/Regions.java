import io.deephaven.chunk.ChunkType;
import io.deephaven.chunk.WritableByteChunk;
import io.deephaven.chunk.WritableCharChunk;
import io.deephaven.chunk.WritableChunk;
import io.deephaven.chunk.WritableDoubleChunk;
import io.deephaven.chunk.WritableFloatChunk;
import io.deephaven.chunk.WritableIntChunk;
import io.deephaven.chunk.WritableLongChunk;
import io.deephaven.chunk.WritableObjectChunk;
import io.deephaven.chunk.WritableShortChunk;
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
 * own region of that column. Compiled by the engine when it has started, which shows whether its release has all that
 * is used here, and which takes one class.
 */
public final class Regions {
    private static final int PART = 27; // rows of a buffer, which has at most 2 GiB: a power of two
    private static final int LEAST = 1 << 14; // rows
    private static int one = 1; // not final: see settle
    private static final int SHORT_RUN = 16; // rows; below it they are read one by one
    private static final int LAST_WAIT = 1 << 9; // seconds
    private static final int OLDEST = 16; // collections that an object takes to become old, and one

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

    /**
     * An idle engine does not collect by itself; what a read that is under way holds is left to a later time. A young
     * object to which a dead old one points stays until it is old itself: so many collections follow each other soon.
     */
    private void collect() {
        for (long seconds = 1, done = 1; seconds <= LAST_WAIT; seconds = done++ < OLDEST ? 1 : 2 * seconds) {
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
        if (made instanceof ColumnRegionByte) {
            return new ByteRegion(this, place, column, made);
        }
        if (made instanceof ColumnRegionChar) {
            return new CharRegion(this, place, column, made);
        }
        if (made instanceof ColumnRegionShort) {
            return new ShortRegion(this, place, column, made);
        }
        if (made instanceof ColumnRegionInt) {
            return new IntRegion(this, place, column, made);
        }
        if (made instanceof ColumnRegionLong) {
            return new LongRegion(this, place, column, made);
        }
        if (made instanceof ColumnRegionFloat) {
            return new FloatRegion(this, place, column, made);
        }
        if (made instanceof ColumnRegionDouble) {
            return new DoubleRegion(this, place, column, made);
        }
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

    /** Filters on some values of a column, which an index answers. */
    private static final class KeyFilter {
        private static final int MOST_KEYS = 1 << 12;
        static final List<RegionedPushdownAction> BY_INDEX = List.of(new RegionedPushdownAction.Region(
                () -> QueryTable.DISABLE_WHERE_PUSHDOWN_DATA_INDEX, PushdownResult.LOCATION_IN_MEMORY_DATA_INDEX_COST,
                context -> true, (location, region) -> true));

        /** Values of a column of which a row that a filter keeps has one; null: it is another filter. */
        static Object[] keys(WhereFilter filter) {
            final MatchFilter match = MatchFilter.extractMatchFilter(filter).orElse(null);
            if (match == null || match.getMatchOptions().inverted() || match.getMatchOptions().caseInsensitive()
                    || match.getValues() == null || match.getValues().length > MOST_KEYS) {
                return null;
            }
            final Object[] keys = match.getValues().clone();
            for (int key = 0; key < keys.length; key++) {
                final Object value = keys[key];
                if (value instanceof Byte || value instanceof Short || value instanceof Integer) {
                    keys[key] = ((Number) value).longValue();
                } else if (value instanceof Float) {
                    keys[key] = ((Float) value).doubleValue();
                } else if (value instanceof Character) {
                    keys[key] = (long) (Character) value;
                } else if (value != null && !(value instanceof Long || value instanceof Double || value instanceof String)) {
                    return null;
                }
            }
            return keys;
        }

        /** From starts and ends of ranges, in turn. */
        static RowSet rows(long[] bounds) {
            final RowSetBuilderSequential rows = RowSetFactory.builderSequential();
            for (int at = 0; at < bounds.length; at += 2) {
                rows.appendRange(bounds[at], bounds[at + 1] - 1);
            }
            return rows.build();
        }
    }

    /** The rows from 0 on that are mapped. */
    private abstract static class MappedPage implements Page.WithDefaults<Values> {
        final ChunkType type;
        final long rows;
        private final long mask;
        private final PyObject owner;
        private final Buffer[] parts;

        MappedPage(ChunkType type, Window window, long mask) {
            this.type = type;
            this.mask = mask;
            rows = window.rows;
            owner = window.owner;
            parts = new Buffer[window.parts.length];
            for (int part = 0; part < parts.length; part++) {
                parts[part] = view(window.parts[part].order(ByteOrder.LITTLE_ENDIAN));
            }
        }

        private Buffer view(ByteBuffer part) {
            switch (type) {
                case Byte:
                    return part.slice();
                case Char:
                    return part.asCharBuffer();
                case Short:
                    return part.asShortBuffer();
                case Long:
                    return part.asLongBuffer();
                case Float:
                    return part.asFloatBuffer();
                case Double:
                    return part.asDoubleBuffer();
                default: // numbers of texts, too
                    return part.asIntBuffer();
            }
        }

        /** Appends rows of one part; the buffer is of this call. */
        abstract void copy(WritableChunk<? super Values> chunk, Buffer part, int at, int count);

        /** Appends rows one by one. */
        abstract void each(WritableChunk<? super Values> chunk, RowSequence keys);

        final Buffer part(long row) {
            return parts[(int) (row >>> PART)];
        }

        static int in(long row) {
            return (int) row & (1 << PART) - 1;
        }

        /**
         * After each read, whose memory stays until here. Where a fault of mapped memory (the file was cut short) is
         * thrown is open: when its thread has entered the JVM and leaves it. That is here, by an array of two
         * dimensions, which compiled code asks the JVM for where it does not know them.
         */
        final void settle() {
            Reference.reachabilityFence(new byte[one][one]);
            Reference.reachabilityFence(owner);
        }

        /** An error that fails an operation; the engine would end at an InternalError. */
        static TableDataException cut(InternalError error) {
            return new TableDataException("a column file is shorter than what was committed: run sparkhaven verify",
                    error);
        }

        @Override
        public final ChunkType getChunkType() {
            return type;
        }

        @Override
        public final long mask() {
            return mask;
        }

        @Override
        public final long firstRowOffset() {
            return 0;
        }

        @Override
        public final long maxRow(long row) {
            return row & ~mask | rows - 1;
        }

        @Override
        public final void fillChunkAppend(FillContext context, WritableChunk<? super Values> chunk, RowSequence keys) {
            try {
                if (keys.getAverageRunLengthEstimate() < SHORT_RUN) {
                    each(chunk, keys);
                } else {
                    keys.forAllRowKeyRanges((first, last) -> copy(chunk, first & mask, (last & mask) + 1));
                }
                settle();
            } catch (InternalError error) {
                throw cut(error);
            }
        }

        private void copy(WritableChunk<? super Values> chunk, long first, long end) {
            for (long row = first; row < end;) {
                final int at = in(row);
                final int count = (int) Math.min(end - row, (1 << PART) - at);
                copy(chunk, part(row).duplicate(), at, count);
                row += count;
            }
        }
    }

    /** A column of a place, as the engine asks for it. */
    private abstract static class Region<P extends MappedPage> extends GenericColumnRegionBase<Values>
            implements PageStore<Values, Values, Page<Values>> {
        private final Regions table;
        private final PyObject place;
        private final String column;
        private final PageStore<Values, Values, ? extends Page<Values>> own;
        private volatile P page;
        private volatile long next; // the row with which to ask again
        private String[] texts = {};

        @SuppressWarnings("unchecked")
        Region(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(own.mask());
            this.table = table;
            this.place = place;
            this.column = column;
            this.own = (PageStore<Values, Values, ? extends Page<Values>>) own;
            synchronized (table.regions) {
                table.regions.add(this);
                next = table.asker == null ? Long.MAX_VALUE : 0;
            }
        }

        abstract P page(Window window, String[] texts);

        @SuppressWarnings("unchecked")
        final <R> R own() {
            return (R) own;
        }

        /** The page that has a row, or null: the engine's own region has it. */
        final P at(long key) {
            throwIfInvalidated();
            final long row = key & mask();
            final P found = page;
            return found != null && row < found.rows ? found : row < next ? null : ask(row);
        }

        private synchronized P ask(long row) {
            if (row >= next) {
                table.given.remove();
                table.asker.callMethod("memory", place, column, texts.length).close();
                final Window window = table.given.get();
                table.given.remove();
                if (window == null) {
                    next = Math.max(2 * (row + 1), LEAST);
                    return null;
                }
                final int known = texts.length;
                texts = Arrays.copyOf(texts, known + window.texts.length);
                System.arraycopy(window.texts, 0, texts, known, window.texts.length);
                page = page(window, texts);
                next = window.rows + Math.max(window.rows / 4, LEAST); // what comes meanwhile is not mapped each time
            }
            return page != null && row < page.rows ? page : null;
        }

        private synchronized void release() {
            page = null;
            texts = new String[0];
            next = Long.MAX_VALUE;
        }

        @Override
        public final void invalidate() {
            super.invalidate();
            ((ColumnRegion<?>) own).invalidate();
            release();
        }

        @Override
        public final List<RegionedPushdownAction> supportedActions() {
            return KeyFilter.BY_INDEX;
        }

        /** The same of all places: an engine asks the first ones, and they may have no index. */
        @Override
        public final long estimatePushdownAction(RegionedPushdownAction action, WhereFilter filter, RowSet selection,
                boolean previous, PushdownFilterContext context, RegionedPushdownAction.EstimateContext estimate) {
            return KeyFilter.keys(filter) != null && table.isIndexed(column) ? action.filterCost() : Long.MAX_VALUE;
        }

        /** The engine still compares each row that is left. */
        @Override
        public final PushdownResult performPushdownAction(RegionedPushdownAction action, WhereFilter filter,
                RowSet selection, PushdownResult input, boolean previous, PushdownFilterContext context,
                RegionedPushdownAction.ActionContext perform) {
            final Object[] keys = KeyFilter.keys(filter);
            try (RowSet rows = keys == null ? null : table.rows(place, column, keys)) {
                if (rows == null) {
                    return input.copy();
                }
                try (RowSet left = input.maybeMatch().intersect(rows)) {
                    return PushdownResult.of(selection, input.match(), left);
                }
            }
        }

        /** What the engine asks of regions of bytes. */
        public final byte[] getBytes(long first, byte[] to, int at, int count) {
            try (RowSequence keys = RowSequenceFactory.forRange(first, first + count - 1)) {
                fillChunk(DEFAULT_FILL_INSTANCE, WritableByteChunk.writableChunkWrap(to, at, count), keys);
            }
            return to;
        }

        @Override
        public final Page<Values> getPageContaining(FillContext context, long row) {
            final P found = at(row);
            return found == null ? own.getPageContaining(context, row) : found;
        }
    }

    /** Numbers and chars; the engine's Instants are longs. */
    private static final class NumberPage extends MappedPage {
        NumberPage(ChunkType type, Window window, long mask) {
            super(type, window, mask);
        }

        @Override
        void copy(WritableChunk<? super Values> chunk, Buffer part, int at, int count) {
            final int size = chunk.size();
            chunk.setSize(size + count);
            chunk.copyFromBuffer(part, at, size, count);
        }

        @Override
        void each(WritableChunk<? super Values> chunk, RowSequence keys) {
            switch (type) {
                case Byte: {
                    final WritableByteChunk<? super Values> to = chunk.asWritableByteChunk();
                    keys.forAllRowKeys(key -> to.add(getByte(key & mask())));
                    break;
                }
                case Char: {
                    final WritableCharChunk<? super Values> to = chunk.asWritableCharChunk();
                    keys.forAllRowKeys(key -> to.add(getChar(key & mask())));
                    break;
                }
                case Short: {
                    final WritableShortChunk<? super Values> to = chunk.asWritableShortChunk();
                    keys.forAllRowKeys(key -> to.add(getShort(key & mask())));
                    break;
                }
                case Int: {
                    final WritableIntChunk<? super Values> to = chunk.asWritableIntChunk();
                    keys.forAllRowKeys(key -> to.add(getInt(key & mask())));
                    break;
                }
                case Long: {
                    final WritableLongChunk<? super Values> to = chunk.asWritableLongChunk();
                    keys.forAllRowKeys(key -> to.add(getLong(key & mask())));
                    break;
                }
                case Float: {
                    final WritableFloatChunk<? super Values> to = chunk.asWritableFloatChunk();
                    keys.forAllRowKeys(key -> to.add(getFloat(key & mask())));
                    break;
                }
                case Double: {
                    final WritableDoubleChunk<? super Values> to = chunk.asWritableDoubleChunk();
                    keys.forAllRowKeys(key -> to.add(getDouble(key & mask())));
                    break;
                }
                default:
                    throw new IllegalStateException("no page of " + type);
            }
        }

        byte getByte(long row) {
            return ((ByteBuffer) part(row)).get(in(row));
        }

        char getChar(long row) {
            return ((CharBuffer) part(row)).get(in(row));
        }

        short getShort(long row) {
            return ((ShortBuffer) part(row)).get(in(row));
        }

        int getInt(long row) {
            return ((IntBuffer) part(row)).get(in(row));
        }

        long getLong(long row) {
            return ((LongBuffer) part(row)).get(in(row));
        }

        float getFloat(long row) {
            return ((FloatBuffer) part(row)).get(in(row));
        }

        double getDouble(long row) {
            return ((DoubleBuffer) part(row)).get(in(row));
        }
    }

    private static final class ByteRegion extends Region<NumberPage> implements ColumnRegionByte<Values> {
        ByteRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(table, place, column, own);
        }

        @Override
        NumberPage page(Window window, String[] texts) {
            return new NumberPage(ChunkType.Byte, window, mask());
        }

        @Override
        public byte getByte(long row) {
            final NumberPage found = at(row);
            if (found == null) {
                return this.<ColumnRegionByte<Values>>own().getByte(row);
            }
            try {
                final byte value = found.getByte(row & mask());
                found.settle();
                return value;
            } catch (InternalError error) {
                throw MappedPage.cut(error);
            }
        }
    }

    private static final class CharRegion extends Region<NumberPage> implements ColumnRegionChar<Values> {
        CharRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(table, place, column, own);
        }

        @Override
        NumberPage page(Window window, String[] texts) {
            return new NumberPage(ChunkType.Char, window, mask());
        }

        @Override
        public char getChar(long row) {
            final NumberPage found = at(row);
            if (found == null) {
                return this.<ColumnRegionChar<Values>>own().getChar(row);
            }
            try {
                final char value = found.getChar(row & mask());
                found.settle();
                return value;
            } catch (InternalError error) {
                throw MappedPage.cut(error);
            }
        }
    }

    private static final class ShortRegion extends Region<NumberPage> implements ColumnRegionShort<Values> {
        ShortRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(table, place, column, own);
        }

        @Override
        NumberPage page(Window window, String[] texts) {
            return new NumberPage(ChunkType.Short, window, mask());
        }

        @Override
        public short getShort(long row) {
            final NumberPage found = at(row);
            if (found == null) {
                return this.<ColumnRegionShort<Values>>own().getShort(row);
            }
            try {
                final short value = found.getShort(row & mask());
                found.settle();
                return value;
            } catch (InternalError error) {
                throw MappedPage.cut(error);
            }
        }
    }

    private static final class IntRegion extends Region<NumberPage> implements ColumnRegionInt<Values> {
        IntRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(table, place, column, own);
        }

        @Override
        NumberPage page(Window window, String[] texts) {
            return new NumberPage(ChunkType.Int, window, mask());
        }

        @Override
        public int getInt(long row) {
            final NumberPage found = at(row);
            if (found == null) {
                return this.<ColumnRegionInt<Values>>own().getInt(row);
            }
            try {
                final int value = found.getInt(row & mask());
                found.settle();
                return value;
            } catch (InternalError error) {
                throw MappedPage.cut(error);
            }
        }
    }

    private static final class LongRegion extends Region<NumberPage> implements ColumnRegionLong<Values> {
        LongRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(table, place, column, own);
        }

        @Override
        NumberPage page(Window window, String[] texts) {
            return new NumberPage(ChunkType.Long, window, mask());
        }

        @Override
        public long getLong(long row) {
            final NumberPage found = at(row);
            if (found == null) {
                return this.<ColumnRegionLong<Values>>own().getLong(row);
            }
            try {
                final long value = found.getLong(row & mask());
                found.settle();
                return value;
            } catch (InternalError error) {
                throw MappedPage.cut(error);
            }
        }
    }

    private static final class FloatRegion extends Region<NumberPage> implements ColumnRegionFloat<Values> {
        FloatRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(table, place, column, own);
        }

        @Override
        NumberPage page(Window window, String[] texts) {
            return new NumberPage(ChunkType.Float, window, mask());
        }

        @Override
        public float getFloat(long row) {
            final NumberPage found = at(row);
            if (found == null) {
                return this.<ColumnRegionFloat<Values>>own().getFloat(row);
            }
            try {
                final float value = found.getFloat(row & mask());
                found.settle();
                return value;
            } catch (InternalError error) {
                throw MappedPage.cut(error);
            }
        }
    }

    private static final class DoubleRegion extends Region<NumberPage> implements ColumnRegionDouble<Values> {
        DoubleRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(table, place, column, own);
        }

        @Override
        NumberPage page(Window window, String[] texts) {
            return new NumberPage(ChunkType.Double, window, mask());
        }

        @Override
        public double getDouble(long row) {
            final NumberPage found = at(row);
            if (found == null) {
                return this.<ColumnRegionDouble<Values>>own().getDouble(row);
            }
            try {
                final double value = found.getDouble(row & mask());
                found.settle();
                return value;
            } catch (InternalError error) {
                throw MappedPage.cut(error);
            }
        }
    }

    /** Symbols, as numbers of texts. */
    private static final class TextPage extends MappedPage {
        private final String[] texts;

        TextPage(Window window, String[] texts, long mask) {
            super(ChunkType.Object, window, mask);
            this.texts = texts;
        }

        String text(int code) {
            return code == Integer.MIN_VALUE ? null : texts[code];
        }

        @Override
        void copy(WritableChunk<? super Values> chunk, Buffer part, int at, int count) {
            final WritableObjectChunk<String, ? super Values> to = chunk.asWritableObjectChunk();
            final IntBuffer codes = (IntBuffer) part;
            for (int row = at; row < at + count; row++) {
                to.add(text(codes.get(row)));
            }
        }

        @Override
        void each(WritableChunk<? super Values> chunk, RowSequence keys) {
            final WritableObjectChunk<String, ? super Values> to = chunk.asWritableObjectChunk();
            keys.forAllRowKeys(key -> to.add(get(key & mask())));
        }

        String get(long row) {
            return text(((IntBuffer) part(row)).get(in(row)));
        }
    }

    private static final class TextRegion extends Region<TextPage> implements ColumnRegionObject<String, Values> {
        TextRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
            super(table, place, column, own);
        }

        @Override
        TextPage page(Window window, String[] texts) {
            return new TextPage(window, texts, mask());
        }

        @Override
        public String getObject(long row) {
            final TextPage found = at(row);
            if (found == null) {
                return this.<ColumnRegionObject<String, Values>>own().getObject(row);
            }
            try {
                final String text = found.get(row & mask());
                found.settle();
                return text;
            } catch (InternalError error) {
                throw MappedPage.cut(error);
            }
        }
    }
}
