// A part of Regions: a column of a place, as the engine asks for it.

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
