package io.sparkhaven.spark;

import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;

/** Makes a stream of a table that is also read as a batch. Spark tells which of both it wants after a scan is built. */
@FunctionalInterface
interface StreamMaker {
  /** Of a table that is a batch only. */
  StreamMaker NONE =
      checkpoint -> {
        throw new UnsupportedOperationException("a stream");
      };

  /** The stream that keeps its progress below {@code checkpoint}. */
  MicroBatchStream make(String checkpoint);
}
