package io.sparkhaven.spark.errors;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What to do about a damaged file, by its path, in the words of {@code store/next_steps.py}. */
final class NextSteps {
  private static final Pattern INDEX = Pattern.compile("/Systems/([^/]+)/MetadataIndex/([^./]+)\\.tlmi");
  private static final Pattern HISTORY =
      Pattern.compile("/Systems/([^/]+)/Partitions/[^/]+/([^/]+)/([A-Za-z_][A-Za-z0-9_]*)");
  private static final Pattern INTRADAY = Pattern.compile("/Intraday/([^/]+)/([^/]+)/[^./][^/]*/[^/]+/");

  private NextSteps() {}

  /** A location index, a location of history, one of intraday, or another file. */
  static String damaged(Object where) {
    String path = String.valueOf(where);
    Matcher index = INDEX.matcher(path);
    if (index.find()) {
      return "`sparkhaven metadata update " + index.group(1) + "." + index.group(2) + "` writes the index again";
    }
    Matcher history = HISTORY.matcher(path);
    if (history.find()) {
      return "restore the file from a copy. While intraday has all rows of the date, run `sparkhaven merge "
          + history.group(1) + "." + history.group(3) + " --dates " + history.group(2) + " --rewrite`";
    }
    Matcher intraday = INTRADAY.matcher(path);
    if (intraday.find()) {
      return "restore the file from a copy, or go back to an epoch before the damage: `sparkhaven epochs rollback "
          + intraday.group(1) + "." + intraday.group(2) + " NAME --to N`, with the name of the stream";
    }
    return "restore the file from a copy. `sparkhaven verify --deep` lists all that is damaged";
  }
}
