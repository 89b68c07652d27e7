import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.Encoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.reflect.AvroAlias;
import org.apache.avro.reflect.AvroDefault;
import org.apache.avro.reflect.AvroSchema;
import org.apache.avro.reflect.Nullable;
import org.apache.avro.reflect.Union;
import org.apache.pulsar.client.api.schema.SchemaDefinition;

/**
 * Prints what the Java client registers and writes for classes, and how its Avro library resolves schemas.
 *
 * Argument: a JSON file with cases of resolution, each a name, a writer's and a reader's schema and a value in Avro's
 * JSON.
 */
public final class RecordedSchemas {
    public enum Color { RED, GREEN, BLUE }

    public enum Ampel { ROT, GRÜN }

    public static class Leg {
        public String carrier;
        public int minutes;
    }

    public static class Flight {
        public int number;
        public Long distance;
        public String tail;
        public boolean late;
        public Color color;
        public Leg first;
        public List<Leg> legs;
        public Map<String, Leg> byName;
        @AvroSchema("{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":10,\"scale\":2}")
        public BigDecimal price;
        public LocalDate day;
        public LocalTime at;
        public Instant when;
        public byte[] data;
    }

    /** `Flight` as a later class: another name, one field of another name, one more, one less. */
    @AvroAlias(alias = "Flight", space = "RecordedSchemas")
    public static class Journey {
        public int number;
        public Long distance;
        @AvroAlias(alias = "tail")
        public String airplane;
        public boolean late;
        public Color color;
        public Leg first;
        public List<Leg> legs;
        public Map<String, Leg> byName;
        @AvroSchema("{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":10,\"scale\":2}")
        public BigDecimal price;
        public LocalDate day;
        public LocalTime at;
        public Instant when;
        @AvroDefault("\"none\"")
        public String gate;
    }

    public static class Circle {
        public double radius;
    }

    public static class Square {
        public double side;
    }

    public static class Shapes {
        @Union({Circle.class, Square.class})
        public Object shape;
        @Nullable
        public Ampel ampel;
        @AvroDefault("7")
        public int level;
    }

    private static Leg leg(String carrier, int minutes) {
        Leg leg = new Leg();
        leg.carrier = carrier;
        leg.minutes = minutes;
        return leg;
    }

    private static Flight flight() {
        Flight flight = new Flight();
        flight.number = 7;
        flight.distance = 1400L;
        flight.tail = "N7";
        flight.late = true;
        flight.color = Color.GREEN;
        flight.first = leg("AA", 5);
        flight.legs = List.of(leg("BB", 1), leg(null, 2));
        flight.byName = Map.of("x", leg("CC", 3));
        flight.price = new BigDecimal("-12.34");
        flight.day = LocalDate.of(2026, 1, 2);
        flight.at = LocalTime.of(3, 4, 5, 678_000_000);
        flight.when = Instant.ofEpochMilli(1_767_323_045_678L);
        flight.data = new byte[] {0, -1};
        return flight;
    }

    private static Journey journey() {
        Journey journey = new Journey();
        journey.number = 8;
        journey.airplane = "N8";
        journey.gate = "G";
        journey.color = Color.RED;
        return journey;
    }

    private static Shapes shapes() {
        Square square = new Square();
        square.side = 1.5;
        Shapes shapes = new Shapes();
        shapes.shape = square;
        shapes.ampel = Ampel.GRÜN;
        shapes.level = 3;
        return shapes;
    }

    private static <T> void record(
            ObjectNode into, String name, Class<T> kind, boolean jsr310, boolean allowNull, T value) {
        SchemaDefinition<T> definition = SchemaDefinition.<T>builder()
                .withPojo(kind)
                .withAlwaysAllowNull(allowNull)
                .withJSR310ConversionEnabled(jsr310)
                .build();
        for (boolean isAvro : new boolean[] {true, false}) {
            org.apache.pulsar.client.api.Schema<T> schema = isAvro
                    ? org.apache.pulsar.client.api.Schema.AVRO(definition)
                    : org.apache.pulsar.client.api.Schema.JSON(definition);
            ObjectNode one = into.putObject(name + (isAvro ? "_avro" : "_json"));
            one.put("type", schema.getSchemaInfo().getType().name());
            one.put("definition", new String(schema.getSchemaInfo().getSchema(), StandardCharsets.UTF_8));
            ObjectNode properties = one.putObject("properties");
            schema.getSchemaInfo().getProperties().forEach(properties::put);
            one.put("payload", HexFormat.of().formatHex(schema.encode(value)));
        }
    }

    private static void resolve(ObjectMapper json, JsonNode one, ObjectNode into) throws Exception {
        Schema writer = new Schema.Parser().parse(json.writeValueAsString(one.get("writer")));
        Schema reader = new Schema.Parser().parse(json.writeValueAsString(one.get("reader")));
        Object value = new GenericDatumReader<>(writer)
                .read(null, DecoderFactory.get().jsonDecoder(writer, json.writeValueAsString(one.get("value"))));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Encoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<>(writer).write(value, encoder);
        encoder.flush();
        into.put("payload", HexFormat.of().formatHex(out.toByteArray()));
        try {
            Object read = new GenericDatumReader<>(writer, reader)
                    .read(null, DecoderFactory.get().binaryDecoder(out.toByteArray(), null));
            into.set("read", json.readTree(GenericData.get().toString(read)));
        } catch (org.apache.avro.AvroRuntimeException error) {
            into.put("error", String.valueOf(error.getMessage()));
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        ObjectNode found = json.createObjectNode();
        ObjectNode classes = found.putObject("classes");
        record(classes, "flight", Flight.class, true, true, flight());
        record(classes, "flight_not_null", Flight.class, true, false, fullFlight());
        record(classes, "journey", Journey.class, true, true, journey());
        record(classes, "shapes", Shapes.class, false, false, shapes());
        ObjectNode resolutions = found.putObject("resolutions");
        for (JsonNode one : json.readTree(new File(arguments[0]))) {
            resolve(json, one, resolutions.putObject(one.get("name").asText()));
        }
        System.out.println("RECORDED " + json.writeValueAsString(found));
    }

    private static Flight fullFlight() {
        Flight flight = flight();
        flight.legs = List.of(leg("BB", 1));
        return flight;
    }
}
