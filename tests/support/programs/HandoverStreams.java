import java.time.Duration;
import java.util.Properties;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;

/** The topologies of `test_java_handover_stores.py` and `test_idle_tasks.py`: HandoverStreams BOOTSTRAP KIND STATE-DIRECTORY. Runs until it is killed. */
public final class HandoverStreams {
    private static final Consumed<String, String> TEXTS = Consumed.with(Serdes.String(), Serdes.String());
    private static final Produced<String, String> OUT = Produced.with(Serdes.String(), Serdes.String());

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("application.id", arguments[1]);
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[2]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "1");
        settings.put("commit.interval.ms", "100");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "500");
        if (arguments[1].equals("lookups")) {
            // Two topics with a backlog do not arrive side by side.
            settings.put("max.partition.fetch.bytes", "1000");
            settings.put("fetch.max.bytes", "1500");
        }
        StreamsBuilder builder = new StreamsBuilder();
        build(builder, arguments[1]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void build(StreamsBuilder builder, String kind) {
        KStream<String, String> left = kind.startsWith("foreign") ? null : builder.stream("left", TEXTS);
        switch (kind) {
            case "windows":
                left.groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofMinutes(1)))
                    .reduce((a, b) -> a + b, Materialized.with(Serdes.String(), Serdes.String()))
                    .toStream((key, value) -> named(key)).to("out", OUT);
                break;
            case "sessions":
                left.groupByKey().windowedBy(
                        SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(5), Duration.ofMinutes(1)))
                    .reduce((a, b) -> a + b, Materialized.with(Serdes.String(), Serdes.String()))
                    .toStream((key, value) -> named(key)).to("out", OUT);
                break;
            case "joins":
                left.join(builder.stream("right", TEXTS), (a, b) -> a + "+" + b,
                    JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(30), Duration.ofMinutes(1)),
                    StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String())).to("out", OUT);
                break;
            case "lookups":
                left.join(builder.table("right", TEXTS), (a, b) -> a + ":" + b).to("out", OUT);
                break;
            default:
                KTable<String, String> rows = builder.table("left", TEXTS);
                KTable<String, String> others = builder.table("right", TEXTS);
                Function<String, String> foreignKey = value -> value.substring(0, 1);
                rows.join(others, foreignKey, (a, b) -> a + "+" + b,
                    Materialized.with(Serdes.String(), Serdes.String())).toStream().to("out", OUT);
        }
    }

    private static String named(Windowed<String> key) {
        return key.key() + "@" + key.window().start() + "/" + key.window().end();
    }
}
