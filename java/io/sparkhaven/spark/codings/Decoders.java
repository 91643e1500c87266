package io.sparkhaven.spark.codings;

/** Decoders by the words with which a plan names them: a kind, then its numbers and words, with spaces between. */
public final class Decoders {
  private Decoders() {}

  /** A decoder of its own, which one thread may use; IllegalArgumentException: there is none of the name. */
  public static ValueDecoder of(String words) {
    String[] parts = words.split(" ");
    switch (parts[0]) {
      case "dates":
        return new LocalDates(number(parts, 1));
      case "times":
        return new LocalTimes(number(parts, 1));
      case "decimals":
        return number(parts, 1) > 38
            ? new DecimalTexts(number(parts, 1), number(parts, 2))
            : new Decimals(number(parts, 1));
      case "numbers":
        return new Numbers(false);
      case "wholes":
        return new Numbers(true);
      case "octets":
        return new Octets(number(parts, 1), false);
      case "nullable-octets":
        return new Octets(number(parts, 1), true);
      case "bytes":
        return new Bytes();
      case "row-sets":
        return new RowSets();
      case "arrays":
        return new PrimitiveArrays(parts[1].charAt(0));
      case "chars":
        return new CharArrays(number(parts, 1), parts[2].equals("string"));
      case "instants":
        return new InstantArrays(InstantForm.named(parts[1]));
      case "texts":
        return new StringArrays();
      case "maps":
        return new StringMaps(parts[1]);
      default:
        throw new IllegalArgumentException("no such coding: " + words);
    }
  }

  private static int number(String[] parts, int index) {
    return Integer.parseInt(parts[index]);
  }
}
