import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts records by key, exactly once, and writes every new count: CountingStreams BOOTSTRAP INPUT OUTPUT STATE-DIRECTORY
 * [REPLICATION-FACTOR].
 * Runs until it is killed. Keys are changed on the way, so that a repartition topic is part of it.
 */
public final class CountingStreams {
    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("application.id", "counting");
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[3]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", arguments.length > 4 ? arguments[4] : "3");
        settings.put("commit.interval.ms", "100");
        settings.put("dsl.store.suppliers.class",
            "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        // Every count is to be seen.
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("transaction.timeout.ms", "10000");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, value) -> "counted-" + key)
            .count(Materialized.with(Serdes.String(), Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.err.println("a thread is replaced: " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
