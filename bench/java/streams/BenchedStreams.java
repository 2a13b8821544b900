import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;

/** The topologies of `bench/streams_run.py`: BenchedStreams TOPOLOGY KEY=VALUE... Runs until it is killed. */
public final class BenchedStreams {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Long> NUMBER = Serdes.Long();

    public static void main(final String[] arguments) throws InterruptedException {
        final Properties settings = new Properties();
        for (int index = 1; index < arguments.length; index++) {
            final int equals = arguments[index].indexOf('=');
            settings.put(arguments[index].substring(0, equals), arguments[index].substring(equals + 1));
        }
        final StreamsBuilder builder = new StreamsBuilder();
        build(builder, arguments[0]);
        final KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void build(final StreamsBuilder builder, final String topology) {
        final Produced<String, String> texts = Produced.with(TEXT, TEXT);
        final Produced<String, Long> numbers = Produced.with(TEXT, NUMBER);
        switch (topology) {
            case "words":
                builder.stream("lines", Consumed.with(TEXT, TEXT))
                    .flatMapValues(line -> Arrays.asList(line.split(" ")))
                    .groupBy((key, word) -> word, Grouped.with(TEXT, TEXT))
                    .count(Materialized.with(TEXT, NUMBER))
                    .toStream().mapValues(count -> Long.toString(count)).to("out", texts);
                break;
            case "windows":
                builder.stream("trades", Consumed.with(TEXT, NUMBER))
                    .groupByKey(Grouped.with(TEXT, NUMBER))
                    .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(5), Duration.ofSeconds(1)))
                    .reduce(Long::sum, Materialized.with(TEXT, NUMBER))
                    .toStream((key, value) -> key.key() + "@" + key.window().start()).to("out", numbers);
                break;
            case "lookup":
                texts(builder, "clicks").join(builder.table("users", Consumed.with(TEXT, TEXT)),
                    (click, user) -> click + "," + user, Joined.with(TEXT, TEXT, TEXT)).to("out", texts);
                break;
            case "pairs":
                texts(builder, "orders").join(texts(builder, "payments"), (left, right) -> left + "," + right,
                    JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(50), Duration.ofSeconds(1)),
                    StreamJoined.with(TEXT, TEXT, TEXT)).to("out", texts);
                break;
            case "sessions":
                texts(builder, "visits").groupByKey(Grouped.with(TEXT, TEXT))
                    .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(200), Duration.ofSeconds(1)))
                    .count(Materialized.with(TEXT, NUMBER))
                    .toStream((key, value) -> key.key() + "@" + key.window().start()).to("out", numbers);
                break;
            case "function":
                texts(builder, "events").mapValues(value -> value.toUpperCase() + ":" + value.length())
                    .filter((key, value) -> !value.endsWith("0")).to("out", texts);
                break;
            case "latest":
                texts(builder, "events").groupByKey(Grouped.with(TEXT, TEXT))
                    .reduce((old, value) -> value, Materialized.with(TEXT, TEXT)).toStream().to("out", texts);
                break;
            default:
                throw new IllegalArgumentException("no topology " + topology);
        }
    }

    private static KStream<String, String> texts(final StreamsBuilder builder, final String topic) {
        return builder.stream(topic, Consumed.with(TEXT, TEXT));
    }
}
