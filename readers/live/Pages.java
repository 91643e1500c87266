import io.deephaven.chunk.ChunkType;
import io.deephaven.chunk.WritableChunk;
import io.deephaven.chunk.attributes.Values;
import io.deephaven.extensions.barrage.BarrageOptions;
import io.deephaven.extensions.barrage.BarrageTypeInfo;
import io.deephaven.extensions.barrage.chunk.ChunkReader;
import io.deephaven.extensions.barrage.chunk.ChunkWriter;
import io.deephaven.extensions.barrage.chunk.DefaultChunkReaderFactory;
import java.io.DataInput;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.PrimitiveIterator;
import org.apache.arrow.flatbuf.Field;

/**
 * Values of a page from the memory of a mapped file, copied once. The engine's own way takes them as an Arrow message:
 * bytes in Python, in a buffer, in a protocol buffer, in an array and in a chunk. The message that it gets instead has
 * as many rows and no bytes. Compiled by the engine when it has started, which also names the package.
 */
public final class Pages implements ChunkReader.Factory {
    private final ThreadLocal<Page> next = new ThreadLocal<>();

    /** The next page that this thread is asked for has these values; their memory must stay until it has been read. */
    public void put(String type, ByteBuffer values, int rows) {
        next.set(new Page(ChunkType.valueOf(type), values.order(ByteOrder.LITTLE_ENDIAN), rows));
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T extends WritableChunk<Values>> ChunkReader<T> newReader(
            BarrageTypeInfo<Field> info, BarrageOptions options) {
        final Page page = next.get();
        if (page == null) {
            return DefaultChunkReaderFactory.INSTANCE.newReader(info, options);
        }
        next.remove();
        return (ChunkReader<T>) page;
    }

    private static final class Page implements ChunkReader<WritableChunk<Values>> {
        private final ChunkType type;
        private final ByteBuffer values;
        private final int rows;

        Page(ChunkType type, ByteBuffer values, int rows) {
            this.type = type;
            this.values = values;
            this.rows = rows;
        }

        @Override
        public WritableChunk<Values> readChunk(Iterator<ChunkWriter.FieldNodeInfo> nodes,
                PrimitiveIterator.OfLong buffers, DataInput message, WritableChunk<Values> ignored, int offset,
                int total) {
            final WritableChunk<Values> chunk = type.makeWritableChunk(rows);
            chunk.copyFromBuffer(view(), 0, 0, rows);
            return chunk;
        }

        private Buffer view() {
            switch (type) {
                case Byte:
                    return values;
                case Char:
                    return values.asCharBuffer();
                case Short:
                    return values.asShortBuffer();
                case Int:
                    return values.asIntBuffer();
                case Long:
                    return values.asLongBuffer();
                case Float:
                    return values.asFloatBuffer();
                case Double:
                    return values.asDoubleBuffer();
                default:
                    throw new IllegalArgumentException("no page of " + type);
            }
        }
    }
}
