package io.sparkhaven.spark.indexes;

import io.sparkhaven.spark.codings.DamagedValue;
import io.sparkhaven.spark.columns.TextCharset;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.spark.unsafe.types.UTF8String;

/** Keys that are texts, ordered by UTF-16 unit, which is not the order of Spark. */
final class TextKeys extends IndexKeys {
  private final IndexBytes ends;
  private final IndexBytes data;
  private final TextCharset charset;

  TextKeys(IndexBytes ends, IndexBytes data, TextCharset charset) {
    this.ends = ends;
    this.data = data;
    this.charset = charset;
  }

  @Override
  long size() {
    return ends.size() / Long.BYTES;
  }

  @Override
  Object key(long number) throws IOException, DamagedValue {
    byte[] bytes = IndexFile.value(ends, data, number);
    UTF8String text = charset.text(bytes, 0, bytes.length, charset.isPlain(bytes, 0, bytes.length), "a key");
    return text == null ? null : text.toString();
  }

  @Override
  Object stored(long number) throws IOException, DamagedValue {
    return ByteBuffer.wrap(IndexFile.value(ends, data, number));
  }

  /** Bytes that are no text are equal to no key. */
  @Override
  Object literal(Object value) {
    String text = value.toString();
    return UTF8String.fromString(text).equals(value) ? text : null;
  }

  @Override
  int order(Object left, Object right) {
    return ((String) left).compareTo((String) right);
  }

  @Override
  public void close() throws IOException {
    try (ends) {
      data.close();
    }
  }
}
