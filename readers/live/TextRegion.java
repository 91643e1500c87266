// A part of Regions: symbols, as numbers of texts.

private static final class TextPage extends MappedPage {
    private final String[] texts;

    TextPage(Window window, String[] texts, long mask) {
        super(window, mask);
        this.texts = texts;
    }

    @Override
    public ChunkType getChunkType() {
        return ChunkType.Object;
    }

    @Override
    Buffer view(ByteBuffer part) {
        return part.asIntBuffer();
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
            throw TextPage.cut(error);
        }
    }
}
