// A part of Regions: longs, and what is said of them is said of the other numbers and of chars too.

private static final class LongPage extends MappedPage {
    LongPage(Window window, long mask) {
        super(window, mask);
    }

    @Override
    public ChunkType getChunkType() {
        return ChunkType.Long;
    }

    @Override
    Buffer view(ByteBuffer part) {
        return part.asLongBuffer();
    }

    @Override
    void copy(WritableChunk<? super Values> chunk, Buffer part, int at, int count) {
        final int size = chunk.size();
        chunk.setSize(size + count);
        chunk.copyFromBuffer(part, at, size, count);
    }

    @Override
    void each(WritableChunk<? super Values> chunk, RowSequence keys) {
        final WritableLongChunk<? super Values> to = chunk.asWritableLongChunk();
        keys.forAllRowKeys(key -> to.add(get(key & mask())));
    }

    long get(long row) {
        return ((LongBuffer) part(row)).get(in(row));
    }
}

private static final class LongRegion extends Region<LongPage> implements ColumnRegionLong<Values> {
    LongRegion(Regions table, PyObject place, String column, ColumnRegion<?> own) {
        super(table, place, column, own);
    }

    @Override
    LongPage page(Window window, String[] texts) {
        return new LongPage(window, mask());
    }

    @Override
    public long getLong(long row) {
        final LongPage found = at(row);
        if (found == null) {
            return this.<ColumnRegionLong<Values>>own().getLong(row);
        }
        try {
            final long value = found.get(row & mask());
            found.settle();
            return value;
        } catch (InternalError error) {
            throw LongPage.cut(error);
        }
    }
}
