import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/** Reads a case per line, builds its topology with Kafka Streams, pipes its inputs, and answers with what came out. */
@SuppressWarnings({"unchecked", "rawtypes"})
public class StreamsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();

    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> nodes = new HashMap<>();

    public static void main(final String[] arguments) throws Exception {
        final BufferedReader reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            String answer;
            try {
                answer = JSON.writeValueAsString(new StreamsOracle().answer(JSON.readTree(line)));
            } catch (final Exception | Error error) {
                answer = JSON.writeValueAsString(JSON.createObjectNode().put("error", error.toString()));
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private ObjectNode answer(final JsonNode oneCase) {
        final Properties properties = new Properties();
        properties.put("application.id", "oracle");
        properties.put("bootstrap.servers", "nowhere:1");
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("state.dir", System.getProperty("java.io.tmpdir"));
        oneCase.path("config").fields().forEachRemaining(entry -> {
            final JsonNode value = entry.getValue();
            properties.put(entry.getKey(), value.isNumber() ? (Object) value.asLong() : value.asText());
        });
        for (final JsonNode step : oneCase.get("topology")) {
            nodes.put(step.path("id").asText(), build(step));
        }
        final Topology topology = builder.build(properties);
        final ObjectNode result = JSON.createObjectNode();
        result.put("description", topology.describe().toString());
        final Instant start = Instant.ofEpochMilli(0);
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, properties, start)) {
            pipe(driver, oneCase, result);
        }
        return result;
    }

    private void pipe(final TopologyTestDriver driver, final JsonNode oneCase, final ObjectNode result) {
        final Map<String, TestInputTopic<String, String>> inputs = new HashMap<>();
        final Map<String, TestOutputTopic<String, String>> outputs = new LinkedHashMap<>();
        for (final JsonNode topic : oneCase.get("outputs")) {
            outputs.put(topic.asText(),
                driver.createOutputTopic(topic.asText(), new StringDeserializer(), new StringDeserializer()));
        }
        final ArrayNode steps = result.putArray("steps");
        int number = 0;
        for (final JsonNode input : oneCase.get("inputs")) {
            final RecordHeaders headers = new RecordHeaders();
            headers.add("n", Integer.toString(number++).getBytes());
            if (input.get(0).isNumber()) {
                driver.advanceWallClockTime(Duration.ofMillis(input.get(0).asLong()));
            } else {
                inputs.computeIfAbsent(input.get(0).asText(),
                    topic -> driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()))
                    .pipeInput(new TestRecord<>(text(input.get(1)), text(input.get(2)), headers,
                        input.get(3).asLong()));
            }
            final ArrayNode step = steps.addArray();
            outputs.forEach((topic, output) -> {
                while (!output.isEmpty()) {
                    final TestRecord<String, String> record = output.readRecord();
                    step.addArray().add(topic).add(record.key()).add(record.value()).add(record.timestamp())
                        .add(headersText(record.headers()));
                }
            });
        }
        final ObjectNode internal = result.putObject("internal");
        for (final String topic : driver.producedTopicNames()) {
            if (topic.startsWith("oracle-")) {
                final ArrayNode records = internal.putArray(topic);
                final TestOutputTopic<byte[], byte[]> output =
                    driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                while (!output.isEmpty()) {
                    final TestRecord<byte[], byte[]> record = output.readRecord();
                    records.addArray().add(hex(record.key())).add(hex(record.value())).add(record.timestamp())
                        .add(headersText(record.headers()));
                }
            }
        }
    }

    private static String headersText(final Headers headers) {
        final StringBuilder text = new StringBuilder();
        headers.forEach(header -> text.append(header.key()).append('=').append(hex(header.value())).append(';'));
        return text.toString();
    }

    private static String text(final JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static String hex(final byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }

    private static String first(final String value) {
        return value == null || value.isEmpty() ? null : value.substring(0, 1);
    }

    private static List<String> letters(final String value) {
        final List<String> found = new ArrayList<>();
        for (int index = 0; value != null && index < value.length(); index++) {
            found.add(value.substring(index, index + 1));
        }
        return found;
    }

    private static boolean isEven(final Object value) {
        return value != null && value.toString().length() % 2 == 0;
    }

    private static String append(final Object aggregate, final Object value) {
        return aggregate + "." + value;
    }

    private static String remove(final Object aggregate, final Object value) {
        return aggregate + "-" + value;
    }

    private static Duration ms(final JsonNode step, final String name) {
        return Duration.ofMillis(step.path(name).asLong());
    }

    private Object build(final JsonNode step) {
        final Object in = nodes.get(step.path("in").asText());
        final Object other = step.has("other") ? nodes.get(step.get("other").asText()) : null;
        final String operation = step.get("op").asText();
        final Object found = sources(operation, step);
        if (found != null) {
            return found;
        }
        if (operation.startsWith("t_")) {
            return table(operation.substring(2), step, (KTable) in, (KTable) other);
        }
        if (operation.startsWith("g_")) {
            return grouped(operation.substring(2), step, in);
        }
        if (operation.startsWith("j_")) {
            return join(operation.substring(2), step, (KStream<String, String>) in, other);
        }
        return stream(operation, step, (KStream<String, String>) in, other);
    }

    private Object sources(final String operation, final JsonNode step) {
        final Consumed<String, String> consumed = Consumed.with(TEXT, TEXT);
        switch (operation) {
            case "stream":
                return builder.stream(step.get("topic").asText(),
                    step.has("name") ? consumed.withName(step.get("name").asText()) : consumed);
            case "table":
                if (step.has("versioned")) {
                    return builder.table(step.get("topic").asText(), consumed, Materialized.<String, String>as(
                        Stores.persistentVersionedKeyValueStore(step.get("store").asText(), ms(step, "versioned"))));
                }
                return step.has("store")
                    ? builder.table(step.get("topic").asText(), consumed, Materialized.as(step.get("store").asText()))
                    : builder.table(step.get("topic").asText(), consumed);
            case "global_table":
                return builder.globalTable(step.get("topic").asText(), consumed);
            case "add_store":
                return builder.addStateStore(Stores.keyValueStoreBuilder(step.has("entries")
                    ? Stores.lruMap(step.get("store").asText(), step.get("entries").asInt())
                    : Stores.inMemoryKeyValueStore(step.get("store").asText()), TEXT, Serdes.Long()));
            default:
                return null;
        }
    }

    private Object stream(final String operation, final JsonNode step, final KStream<String, String> in, final Object other) {
        final Named named = step.has("name") ? Named.as(step.get("name").asText()) : null;
        switch (operation) {
            case "filter":
                return named == null ? in.filter((k, v) -> isEven(v)) : in.filter((k, v) -> isEven(v), named);
            case "filter_not":
                return in.filterNot((k, v) -> isEven(v));
            case "map":
                return in.map((k, v) -> KeyValue.pair(first(v), k + ":" + v));
            case "map_values":
                return named == null ? in.mapValues(v -> v == null ? null : "<" + v + ">")
                    : in.mapValues(v -> v == null ? null : "<" + v + ">", named);
            case "map_values_key":
                return in.mapValues((k, v) -> k + "=" + v);
            case "flat_map":
                return in.flatMap((k, v) -> {
                    final List<KeyValue<String, String>> pairs = new ArrayList<>();
                    letters(v).forEach(letter -> pairs.add(KeyValue.pair(letter, v)));
                    return pairs;
                });
            case "flat_map_values":
                return in.flatMapValues(v -> letters(v));
            case "select_key":
                return in.selectKey((k, v) -> first(v));
            case "split": {
                final Map<String, KStream<String, String>> branches = in.split(Named.as(step.get("id").asText() + "-"))
                    .branch((k, v) -> v != null && v.startsWith("a"), Branched.as("a"))
                    .branch((k, v) -> isEven(v), Branched.as("even"))
                    .defaultBranch(Branched.as("rest"));
                branches.forEach(nodes::put);
                return in;
            }
            case "merge":
                return in.merge((KStream<String, String>) other);
            case "peek":
                return in.peek((k, v) -> { });
            case "repartition": {
                Repartitioned<String, String> how = Repartitioned.with(TEXT, TEXT);
                how = step.has("name") ? how.withName(step.get("name").asText()) : how;
                return in.repartition(how);
            }
            case "to_table":
                return step.has("store")
                    ? in.toTable(Materialized.<String, String, KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as(
                        step.get("store").asText()).withKeySerde(TEXT).withValueSerde(TEXT))
                    : in.toTable(Materialized.with(TEXT, TEXT));
            case "group_by":
                return step.has("name")
                    ? in.groupBy((k, v) -> first(v), Grouped.with(step.get("name").asText(), TEXT, TEXT))
                    : in.groupBy((k, v) -> first(v), Grouped.with(TEXT, TEXT));
            case "group_by_key":
                return in.groupByKey(Grouped.with(TEXT, TEXT));
            case "process":
                return in.process(() -> new Counting(step), step.get("store").asText());
            case "process_values":
                return in.processValues(() -> new CountingValues(step.get("store").asText()), step.get("store").asText());
            case "text":
                return ((KStream<Object, Object>) (KStream) in).map((k, v) -> KeyValue.pair(
                    k == null ? null : k instanceof Windowed
                        ? ((Windowed) k).key() + "@" + ((Windowed) k).window().start() + "/" + ((Windowed) k).window().end()
                        : k.toString(),
                    v == null ? null : v.toString()));
            case "to":
                in.to(step.get("topic").asText(), Produced.with(TEXT, TEXT));
                return in;
            case "to_dynamic":
                in.to((k, v, context) -> isEven(v) ? "even" : "odd", Produced.with(TEXT, TEXT));
                return in;
            default:
                throw new IllegalArgumentException("no operation " + operation);
        }
    }

    private static class Counting extends ContextualProcessor<String, String, String, String> {
        private final JsonNode step;
        private KeyValueStore<String, Long> store;

        Counting(final JsonNode step) {
            this.step = step;
        }

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore(step.get("store").asText());
            if (step.has("stream_time")) {
                context.schedule(ms(step, "stream_time"), PunctuationType.STREAM_TIME,
                    now -> context.forward(new Record<>("stream", Long.toString(now), now)));
            }
            if (step.has("wall_clock")) {
                context.schedule(ms(step, "wall_clock"), PunctuationType.WALL_CLOCK_TIME,
                    now -> context.forward(new Record<>("wall", Long.toString(now), now)));
            }
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            final Long before = store.get(record.key());
            final long count = before == null ? 1 : before + 1;
            store.put(record.key(), count % 4 == 0 ? null : count);
            context().forward(record.withValue(record.value() + "#" + count));
        }
    }

    private static class CountingValues extends ContextualFixedKeyProcessor<String, String, String> {
        private final String name;
        private KeyValueStore<String, Long> store;

        CountingValues(final String name) {
            this.name = name;
        }

        @Override
        public void init(final FixedKeyProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore(name);
        }

        @Override
        public void process(final FixedKeyRecord<String, String> record) {
            if (record.key() == null) {
                return;
            }
            final Long before = store.get(record.key());
            final long count = before == null ? 1 : before + 1;
            store.put(record.key(), count);
            context().forward(record.withValue(record.value() + "#" + count));
            if (count % 2 == 0) {
                context().forward(record.withValue(Long.toString(count)).withTimestamp(record.timestamp() + 1));
            }
        }
    }

    private Object join(final String operation, final JsonNode step, final KStream<String, String> in, final Object other) {
        final ValueJoiner<String, String, String> joiner = (a, b) -> a + "+" + b;
        if (other instanceof GlobalKTable) {
            final GlobalKTable<String, String> table = (GlobalKTable<String, String>) other;
            return operation.equals("left") ? in.leftJoin(table, (k, v) -> first(v), joiner)
                : in.join(table, (k, v) -> first(v), joiner);
        }
        if (other instanceof KTable) {
            final KTable<String, String> table = (KTable<String, String>) other;
            Joined<String, String, String> joined = Joined.with(TEXT, TEXT, TEXT);
            joined = step.has("grace") ? joined.withGracePeriod(ms(step, "grace")) : joined;
            joined = step.has("name") ? joined.withName(step.get("name").asText()) : joined;
            return operation.equals("left") ? in.leftJoin(table, joiner, joined) : in.join(table, joiner, joined);
        }
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(ms(step, "size"), ms(step, "grace"));
        windows = step.has("before") ? windows.before(ms(step, "before")) : windows;
        windows = step.has("after") ? windows.after(ms(step, "after")) : windows;
        StreamJoined<String, String, String> how = StreamJoined.with(TEXT, TEXT, TEXT);
        how = step.has("name") ? how.withName(step.get("name").asText()) : how;
        how = step.has("store") ? how.withStoreName(step.get("store").asText()) : how;
        final KStream<String, String> stream = (KStream<String, String>) other;
        switch (operation) {
            case "left":
                return in.leftJoin(stream, joiner, windows, how);
            case "outer":
                return in.outerJoin(stream, joiner, windows, how);
            default:
                return in.join(stream, joiner, windows, how);
        }
    }

    private Object grouped(final String operation, final JsonNode step, final Object in) {
        final boolean closes = step.path("emit").asText().equals("close");
        switch (operation) {
            case "time": {
                final TimeWindows size = TimeWindows.ofSizeAndGrace(ms(step, "size"), ms(step, "grace"));
                final TimeWindows windows = step.has("advance") ? size.advanceBy(ms(step, "advance")) : size;
                if (in instanceof CogroupedKStream) {
                    return ((CogroupedKStream) in).windowedBy(windows);
                }
                final TimeWindowedKStream stream = ((KGroupedStream) in).windowedBy(windows);
                return closes ? stream.emitStrategy(EmitStrategy.onWindowClose()) : stream;
            }
            case "sliding": {
                final SlidingWindows windows =
                    SlidingWindows.ofTimeDifferenceAndGrace(ms(step, "size"), ms(step, "grace"));
                if (in instanceof CogroupedKStream) {
                    return ((CogroupedKStream) in).windowedBy(windows);
                }
                final TimeWindowedKStream stream = ((KGroupedStream) in).windowedBy(windows);
                return closes ? stream.emitStrategy(EmitStrategy.onWindowClose()) : stream;
            }
            case "session": {
                final SessionWindows windows =
                    SessionWindows.ofInactivityGapAndGrace(ms(step, "size"), ms(step, "grace"));
                if (in instanceof CogroupedKStream) {
                    return ((CogroupedKStream) in).windowedBy(windows);
                }
                final SessionWindowedKStream stream = ((KGroupedStream) in).windowedBy(windows);
                return closes ? stream.emitStrategy(EmitStrategy.onWindowClose()) : stream;
            }
            case "cogroup": {
                final Aggregator<String, String, String> aggregator = (k, v, a) -> a + step.path("mark").asText(".") + v;
                final KGroupedStream<String, String> stream = (KGroupedStream<String, String>) in;
                return step.has("other")
                    ? ((CogroupedKStream<String, String>) nodes.get(step.get("other").asText())).cogroup(stream, aggregator)
                    : stream.cogroup(aggregator);
            }
            default:
                return aggregate(operation, step, in);
        }
    }

    private Object aggregate(final String operation, final JsonNode step, final Object in) {
        final Initializer<String> empty = () -> "";
        final Aggregator<Object, Object, String> append = (k, v, a) -> append(a, v);
        final Merger<Object, String> merge = (k, a, b) -> "(" + a + b + ")";
        final boolean isText = !operation.equals("count");
        final Materialized named = step.has("store")
            ? Materialized.as(step.get("store").asText()).withKeySerde((Serde) TEXT)
                .withValueSerde((Serde) (isText ? TEXT : Serdes.Long()))
            : Materialized.with(TEXT, isText ? (Serde) TEXT : Serdes.Long());
        final Materialized store = step.has("retention") ? named.withRetention(ms(step, "retention")) : named;
        final boolean isGiven = step.has("store") || step.has("retention");
        if (in instanceof CogroupedKStream) {
            return ((CogroupedKStream) in).aggregate(empty, store);
        }
        if (in instanceof TimeWindowedCogroupedKStream) {
            return ((TimeWindowedCogroupedKStream) in).aggregate(empty, store);
        }
        if (in instanceof SessionWindowedCogroupedKStream) {
            return ((SessionWindowedCogroupedKStream) in).aggregate(empty, merge, store);
        }
        if (in instanceof KGroupedStream) {
            final KGroupedStream stream = (KGroupedStream) in;
            return operation.equals("count") ? (isGiven ? stream.count(store) : stream.count())
                : operation.equals("reduce") ? stream.reduce((a, b) -> append(a, b), store)
                : stream.aggregate(empty, append, store);
        }
        if (in instanceof SessionWindowedKStream) {
            final SessionWindowedKStream stream = (SessionWindowedKStream) in;
            return operation.equals("count") ? (isGiven ? stream.count(store) : stream.count())
                : operation.equals("reduce") ? stream.reduce((a, b) -> append(a, b), store)
                : stream.aggregate(empty, append, merge, store);
        }
        if (in instanceof KGroupedTable) {
            final KGroupedTable table = (KGroupedTable) in;
            return operation.equals("count") ? (isGiven ? table.count(store) : table.count())
                : operation.equals("reduce") ? table.reduce((a, b) -> append(a, b), (a, b) -> remove(a, b), store)
                : table.aggregate(empty, append, (k, v, a) -> remove(a, v), store);
        }
        final TimeWindowedKStream stream = (TimeWindowedKStream) in;
        return operation.equals("count") ? (isGiven ? stream.count(store) : stream.count())
            : operation.equals("reduce") ? stream.reduce((a, b) -> append(a, b), store)
            : stream.aggregate(empty, append, store);
    }

    private Object table(final String operation, final JsonNode step, final KTable in, final KTable other) {
        final Materialized<Object, Object, KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>> store =
            step.has("store") ? (Materialized) Materialized.as(step.get("store").asText())
                .withKeySerde((Serde) TEXT).withValueSerde((Serde) TEXT) : null;
        final ValueJoiner<Object, Object, Object> joiner = (a, b) -> a + "+" + b;
        switch (operation) {
            case "filter":
                return store == null ? in.filter((k, v) -> isEven(v)) : in.filter((k, v) -> isEven(v), store);
            case "filter_not":
                return store == null ? in.filterNot((k, v) -> isEven(v)) : in.filterNot((k, v) -> isEven(v), store);
            case "map_values": {
                final ValueMapper<Object, Object> mapper = v -> "<" + v + ">";
                return store == null ? in.mapValues(mapper) : in.mapValues(mapper, store);
            }
            case "group_by":
                return in.groupBy((k, v) -> KeyValue.pair((Object) first(v.toString()), v.toString()), Grouped.with(TEXT, TEXT));
            case "to_stream":
                return in.toStream();
            case "suppress_closed":
                return in.suppress(Suppressed.untilWindowCloses(step.has("records")
                    ? Suppressed.BufferConfig.maxRecords(step.get("records").asLong()).shutDownWhenFull()
                    : Suppressed.BufferConfig.unbounded()));
            case "suppress_time":
                return in.suppress(Suppressed.untilTimeLimit(ms(step, "size"), step.has("records")
                    ? Suppressed.BufferConfig.maxRecords(step.get("records").asLong())
                    : step.has("bytes") ? Suppressed.BufferConfig.maxBytes(step.get("bytes").asLong())
                    : Suppressed.BufferConfig.unbounded()));
            case "join":
                return store == null ? in.join(other, joiner) : in.join(other, joiner, store);
            case "left_join":
                return store == null ? in.leftJoin(other, joiner) : in.leftJoin(other, joiner, store);
            case "outer_join":
                return store == null ? in.outerJoin(other, joiner) : in.outerJoin(other, joiner, store);
            case "fk_join":
                return in.join(other, (java.util.function.Function<Object, Object>) v -> first(v.toString()), joiner,
                    Materialized.with(TEXT, TEXT));
            case "fk_left_join":
                return in.leftJoin(other, (java.util.function.Function<Object, Object>) v -> first(v.toString()), joiner,
                    Materialized.with(TEXT, TEXT));
            default:
                throw new IllegalArgumentException("no operation t_" + operation);
        }
    }
}
