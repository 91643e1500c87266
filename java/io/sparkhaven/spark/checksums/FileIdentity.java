package io.sparkhaven.spark.checksums;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Map;

/**
 * What the system says of a file. Device and inode tell which one it is.
 *
 * @param changed when it was written last, or its owner or permissions were changed
 * @param size bytes
 */
record FileIdentity(long device, long inode, FileTime changed, long size) {
  /** Device and inode. */
  record Key(long device, long inode) {}

  static FileIdentity of(Path path) throws IOException {
    Map<String, Object> attributes = Files.readAttributes(path, "unix:dev,ino,ctime,size");
    return new FileIdentity(
        (long) attributes.get("dev"),
        (long) attributes.get("ino"),
        (FileTime) attributes.get("ctime"),
        (long) attributes.get("size"));
  }

  Key key() {
    return new Key(device, inode);
  }

  /** Whether nothing but appends can have happened to the file since. */
  boolean onlyGrewTo(FileIdentity later) {
    return changed.equals(later.changed) || later.size > size;
  }
}
