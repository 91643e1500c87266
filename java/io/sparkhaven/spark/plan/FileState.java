package io.sparkhaven.spark.plan;

import java.io.Serializable;

/**
 * Committed bytes of one file's data region.
 *
 * @param size bytes, of a {@code .dat} file without what stands before the first row
 * @param crc their CRC-32
 */
public record FileState(long size, int crc) implements Serializable {}
