// A part of Regions: values of a column in a place that are mapped.

/** The rows from 0 on that are mapped. */
private abstract static class MappedPage implements Page.WithDefaults<Values> {
    final long rows;
    private final long mask;
    private final PyObject owner;
    private final Buffer[] parts;

    MappedPage(Window window, long mask) {
        this.mask = mask;
        rows = window.rows;
        owner = window.owner;
        parts = new Buffer[window.parts.length];
        for (int part = 0; part < parts.length; part++) {
            parts[part] = view(window.parts[part].order(ByteOrder.LITTLE_ENDIAN));
        }
    }

    /** The values of a part. */
    abstract Buffer view(ByteBuffer part);

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
