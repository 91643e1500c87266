import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.time.LocalTime;

/** Of each value on standard input, as "CLASS VALUE": its text, its hash, and the hash of the text joined to a name. */
public class KeyValues {
    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Object value = switch (words[0]) {
                case "LocalDate" -> LocalDate.ofEpochDay(Long.parseLong(words[1]));
                case "LocalTime" -> LocalTime.ofNanoOfDay(Long.parseLong(words[1]));
                case "BigDecimal" -> new BigDecimal(new BigInteger(words[1]), Integer.parseInt(words[2]));
                default -> new BigInteger(words[1]);
            };
            System.out.println(value + "\t" + value.hashCode() + "\t" + ("Ns.Tab" + value).hashCode());
        }
    }
}
