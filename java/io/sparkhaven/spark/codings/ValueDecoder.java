package io.sparkhaven.spark.codings;

import io.sparkhaven.spark.errors.ReadFailure;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.time.DateTimeException;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/** Makes a value of the bytes that a codec wrote. Integers in them are big-endian, whatever the order of the file. */
@FunctionalInterface
public interface ValueDecoder {
  /**
   * Takes a value, which is all that is left in the buffer, and puts it into a row of a vector, or null.
   *
   * @throws IOException or one of the exceptions that {@link #put} knows: the bytes stand for no value of the codec
   */
  void decode(ByteBuffer value, WritableColumnVector into, int row) throws IOException;

  /**
   * Puts the value of bytes [from, from + length) into a row of a vector, or null where they mean null.
   *
   * @throws DamagedValue the bytes stand for no value of the codec
   * @throws ReadFailure the value has no form in Spark by the options of the read
   */
  default void put(byte[] bytes, int from, int length, WritableColumnVector into, int row) throws IOException {
    ByteBuffer value = ByteBuffer.wrap(bytes, from, length);
    try {
      decode(value, into, row);
    } catch (BufferUnderflowException
        | IllegalArgumentException
        | ArithmeticException
        | DateTimeException
        | CharacterCodingException error) {
      throw new DamagedValue();
    }
    DamagedValue.unless(!value.hasRemaining());
  }
}
