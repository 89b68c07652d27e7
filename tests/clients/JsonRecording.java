// Prints what the Java client writes as JSON for each type of a field, one case a line: see json_recording.py.
import java.math.*;
import java.nio.charset.StandardCharsets;
import java.time.*;
import java.util.*;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

public class JsonRecording {
    public enum Color { RED, GREEN }
    public static class Empty { }
    public static class Inner { public int id; public String name; }
    public static class FBool { public boolean v; }
    public static class FByte { public byte v; }
    public static class FShort { public short v; }
    public static class FInt { public int v; }
    public static class FLong { public long v; }
    public static class FFloat { public float v; }
    public static class FDouble { public double v; }
    public static class FChar { public char v; }
    public static class FCharacter { public Character v; }
    public static class FCharArray { public char[] v; }
    public static class FIntArray { public int[] v; }
    public static class FShortArray { public short[] v; }
    public static class FString { public String v; }
    public static class FCharSequence { public CharSequence v; }
    public static class FBytes { public byte[] v; }
    public static class FByteBuffer { public java.nio.ByteBuffer v; }
    public static class FBigDecimal { public BigDecimal v; }
    public static class FBigInteger { public BigInteger v; }
    public static class FInstant { public Instant v; }
    public static class FLocalDate { public LocalDate v; }
    public static class FLocalTime { public LocalTime v; }
    public static class FLocalDateTime { public LocalDateTime v; }
    public static class FOffsetDateTime { public OffsetDateTime v; }
    public static class FZonedDateTime { public ZonedDateTime v; }
    public static class FDuration { public Duration v; }
    public static class FDate { public Date v; }
    public static class FSqlTimestamp { public java.sql.Timestamp v; }
    public static class FSqlDate { public java.sql.Date v; }
    public static class FUuid { public UUID v; }
    public static class FUri { public java.net.URI v; }
    public static class FEnum { public Color v; }
    public static class FMapString { public Map<String, Integer> v; }
    public static class FMapInt { public Map<Integer, String> v; }
    public static class FMapLong { public Map<Long, Inner> v; }
    public static class FMapEnum { public Map<Color, Integer> v; }
    public static class FMapDecimal { public Map<String, BigDecimal> v; }
    public static class FList { public List<String> v; }
    public static class FListInner { public List<Inner> v; }
    public static class FSet { public Set<Integer> v; }
    public static class FInner { public Inner v; }
    public static class FEmpty { public Empty v; }
    public static class FOptional { public Optional<String> v; }
    public static class FOptionalInt { public OptionalInt v; }
    public static class FObject { public Object v; }
    public static class FInteger { public Integer v; }
    public static class FRecursive { public int v; public FRecursive next; }
    public static class FAnnotatedDecimal { @org.apache.avro.reflect.AvroSchema("{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":10,\"scale\":2}") public BigDecimal v; }
    public static class FAnnotatedLong { @org.apache.avro.reflect.AvroSchema("{\"type\":\"long\",\"logicalType\":\"timestamp-millis\"}") public long v; }
    public static class FAnnotatedInt { @org.apache.avro.reflect.AvroSchema("{\"type\":\"int\",\"logicalType\":\"date\"}") public int v; }

    static final ObjectMapper M = new ObjectMapper();

    static Object value(Class<?> c, int which) {
        switch (c.getSimpleName()) {
            case "FBool": return true;
            case "FByte": return (byte) -7;
            case "FShort": return (short) 300;
            case "FInt": case "FInteger": return -70000;
            case "FLong": return 9007199254740993L;
            case "FFloat": return which == 1 ? Float.NaN : 1.1f;
            case "FDouble": return which == 1 ? Double.NEGATIVE_INFINITY : 1e300;
            case "FChar": return 'é';
            case "FCharacter": return 'x';
            case "FCharArray": return new char[] {'a', 'b'};
            case "FIntArray": return new int[] {1, 2};
            case "FShortArray": return new short[] {1, 2};
            case "FString": case "FCharSequence": return "text \u2028 é \uD83D\uDE00";
            case "FBytes": return "abcd".getBytes();
            case "FByteBuffer": return java.nio.ByteBuffer.wrap("abcd".getBytes());
            case "FBigDecimal": return which == 1 ? new BigDecimal("1E+3") : new BigDecimal("12345678901234567890.10");
            case "FAnnotatedDecimal": return new BigDecimal("12.34");
            case "FAnnotatedLong": return 1700000000123L;
            case "FAnnotatedInt": return 19675;
            case "FBigInteger": return new BigInteger("123456789012345678901234567890");
            case "FInstant": return which == 1 ? Instant.ofEpochSecond(1700000000L) : Instant.ofEpochSecond(1700000000L, 123456789);
            case "FLocalDate": return LocalDate.of(2023, 11, 14);
            case "FLocalTime": return which == 1 ? LocalTime.of(22, 13) : LocalTime.of(22, 13, 20, 123000000);
            case "FLocalDateTime": return which == 1 ? LocalDateTime.of(2023, 11, 14, 22, 13) : LocalDateTime.of(2023, 11, 14, 22, 13, 20, 123000000);
            case "FOffsetDateTime": return OffsetDateTime.of(2023, 11, 14, 22, 13, 20, 0, ZoneOffset.ofHours(1));
            case "FZonedDateTime": return ZonedDateTime.of(2023, 11, 14, 22, 13, 20, 0, ZoneId.of("Europe/Berlin"));
            case "FDuration": return Duration.ofMillis(1500);
            case "FDate": return new Date(1700000000123L);
            case "FSqlTimestamp": return new java.sql.Timestamp(1700000000123L);
            case "FSqlDate": return new java.sql.Date(1700000000123L);
            case "FUuid": return UUID.fromString("123e4567-e89b-12d3-a456-426614174000");
            case "FUri": return java.net.URI.create("http://a/b");
            case "FEnum": return Color.GREEN;
            case "FMapString": return new TreeMap<>(Map.of("a", 1));
            case "FMapInt": return new TreeMap<>(Map.of(-1, "x", 2, "y"));
            case "FMapLong": return new TreeMap<>(Map.of(5L, inner()));
            case "FMapEnum": return new TreeMap<>(Map.of(Color.RED, 1));
            case "FMapDecimal": return new TreeMap<>(Map.of("a", new BigDecimal("1.50")));
            case "FList": return List.of("a", "b");
            case "FListInner": return List.of(inner());
            case "FSet": return new TreeSet<>(Set.of(1, 2));
            case "FInner": return inner();
            case "FEmpty": return new Empty();
            case "FOptional": return which == 1 ? Optional.empty() : Optional.of("x");
            case "FOptionalInt": return OptionalInt.of(3);
            case "FObject": return "x";
            case "FRecursive": return 1;
        }
        return null;
    }
    static Inner inner() { Inner i = new Inner(); i.id = 1; i.name = "n"; return i; }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static void main(String[] args) throws Exception {
        for (Class<?> c : JsonRecording.class.getDeclaredClasses()) {
            if (!c.getSimpleName().startsWith("F")) continue;
            for (boolean jsr : new boolean[] {true, false}) {
                for (int which = 0; which < 2; which++) {
                    ObjectNode out = M.createObjectNode();
                    out.put("case", c.getSimpleName().substring(1)).put("jsr310", jsr).put("which", which);
                    String at = "schema";
                    try {
                        Schema s = Schema.JSON(SchemaDefinition.builder().withPojo((Class) c).withAlwaysAllowNull(true).withJSR310ConversionEnabled(jsr).build());
                        out.put("definition", new String(s.getSchemaInfo().getSchema(), StandardCharsets.UTF_8));
                        Object o = c.getDeclaredConstructor().newInstance();
                        c.getField("v").set(o, value(c, which));
                        at = "encode";
                        byte[] p = s.encode(o);
                        out.put("payload", new String(p, StandardCharsets.UTF_8));
                        at = "decode";
                        Object back = c.getField("v").get(s.decode(p));
                        out.put("back", String.valueOf(back));
                    } catch (Throwable t) {
                        Throwable r = t; while (r.getCause() != null) r = r.getCause();
                        String m = String.valueOf(r.getMessage());
                        out.put("error", at + ": " + r.getClass().getName() + ": " + m.substring(0, Math.min(200, m.length())));
                    }
                    System.out.println(M.writeValueAsString(out));
                    if (String.valueOf(value(c, 0)).equals(String.valueOf(value(c, 1)))) break;
                }
            }
        }
    }
}
