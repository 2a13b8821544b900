import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

/** Reads cases from a file, asks Kafka's own transforms, and prints the cases with what came out of each. */
public class TransformCases {
    static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode cases = (ArrayNode) MAPPER.readTree(new File(arguments[0]));
        for (JsonNode each : cases) {
            ((ObjectNode) each).set("expected", expected(each));
        }
        // A case is a line, so that a change is read as one.
        for (int number = 0; number < cases.size(); number++) {
            System.out.println((number == 0 ? "[" : ",") + MAPPER.writeValueAsString(cases.get(number)));
        }
        System.out.println("]");
    }

    static ObjectNode expected(JsonNode given) {
        ObjectNode result = MAPPER.createObjectNode();
        try {
            boolean schemas = given.path("schemas").asBoolean(true);
            JsonConverter key = converter(schemas, true);
            JsonConverter value = converter(schemas, false);
            SimpleHeaderConverter headers = new SimpleHeaderConverter();
            SinkRecord record = record(given, key, value, headers);
            SinkRecord changed = transform(given).apply(record);
            if (changed == null) {
                return result.put("dropped", true);
            }
            result.put("topic", changed.topic());
            result.set("key", json(key.fromConnectData("t", changed.keySchema(), changed.key())));
            result.set("value", json(value.fromConnectData("t", changed.valueSchema(), changed.value())));
            ArrayNode list = result.putArray("headers");
            for (Header header : changed.headers()) {
                byte[] bytes = headers.fromConnectHeader("t", header.key(), header.schema(), header.value());
                list.addArray().add(header.key()).add(bytes == null ? null : new String(bytes, StandardCharsets.UTF_8));
            }
            return result;
        } catch (Exception error) {
            return MAPPER.createObjectNode().put("failed", error.getClass().getSimpleName());
        }
    }

    static SinkRecord record(JsonNode given, JsonConverter key, JsonConverter value, SimpleHeaderConverter converter)
            throws Exception {
        SchemaAndValue k = key.toConnectData("t", bytes(given.get("key")));
        SchemaAndValue v = value.toConnectData("t", bytes(given.get("value")));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : given.path("headers")) {
            headers.add(header.get(0).asText(), converter.toConnectHeader("t", header.get(0).asText(),
                    header.get(1).asText().getBytes(StandardCharsets.UTF_8)));
        }
        Long timestamp = given.has("timestamp") ? Long.valueOf(given.get("timestamp").asLong()) : null;
        return new SinkRecord(given.path("topic").asText("orders"), 3, k.schema(), k.value(), v.schema(), v.value(), 42L,
                timestamp, TimestampType.CREATE_TIME, headers);
    }

    @SuppressWarnings("unchecked")
    static Transformation<SinkRecord> transform(JsonNode given) throws Exception {
        Class<?> found = Class.forName("org.apache.kafka.connect.transforms." + given.get("transform").asText());
        Transformation<SinkRecord> transform = (Transformation<SinkRecord>) found.getConstructor().newInstance();
        transform.configure(MAPPER.convertValue(given.path("config"), Map.class));
        return transform;
    }

    static JsonConverter converter(boolean schemas, boolean isKey) {
        JsonConverter converter = new JsonConverter();
        Map<String, String> config = new HashMap<>();
        config.put("schemas.enable", String.valueOf(schemas));
        converter.configure(config, isKey);
        return converter;
    }

    static byte[] bytes(JsonNode node) throws Exception {
        return node == null || node.isNull() ? null : MAPPER.writeValueAsBytes(node);
    }

    static JsonNode json(byte[] bytes) throws Exception {
        return bytes == null ? MAPPER.nullNode() : MAPPER.readTree(bytes);
    }
}
