package io.sparkhaven.spark.files;

import com.fasterxml.jackson.annotation.JsonFormat;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * What the system says of a file: the same for one that nobody has touched. Sizes in bytes, times in nanoseconds since
 * 1970. One call of the system.
 */
@JsonFormat(shape = JsonFormat.Shape.ARRAY)
public record FileIdentity(long device, long inode, long size, long modified, long changed) implements Serializable {
  private static final String NAMES = "unix:dev,ino,size,lastModifiedTime,ctime";
  private static final String NOT_A_DIRECTORY = "Not a directory";

  /** Null where there is no such file. IOException: the system refuses to tell. */
  public static FileIdentity of(Path path) throws IOException {
    Map<String, Object> status;
    try {
      status = Files.readAttributes(path, NAMES);
    } catch (NoSuchFileException error) {
      return null;
    } catch (FileSystemException error) {
      if (NOT_A_DIRECTORY.equals(error.getReason())) {
        return null;
      }
      throw error;
    }
    return new FileIdentity(
        number(status, "dev"), number(status, "ino"), number(status, "size"),
        nanoseconds(status, "lastModifiedTime"), nanoseconds(status, "ctime"));
  }

  private static long number(Map<String, Object> status, String name) {
    return ((Number) status.get(name)).longValue();
  }

  private static long nanoseconds(Map<String, Object> status, String name) {
    return ((FileTime) status.get(name)).to(TimeUnit.NANOSECONDS);
  }
}
