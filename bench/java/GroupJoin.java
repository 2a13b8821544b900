import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * The only member of a new group, several times: BOOTSTRAP TOPIC PROTOCOL GROUP COUNT. Prints the milliseconds from
 * the subscription to the first record, one number for each of the COUNT groups. Under the new protocol a client waits
 * for its own backoff between steps; with the default of 100 ms, that would be all there is to see.
 */
public class GroupJoin {
    private static final long TIMEOUT_NS = 60_000_000_000L;

    public static void main(String[] arguments) {
        for (int number = 0; number < Integer.parseInt(arguments[4]); number++) {
            Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0], "group.protocol", arguments[2], "group.id", arguments[3] + "-" + number,
                "enable.auto.commit", false, "auto.offset.reset", "earliest", "retry.backoff.ms", 10L);
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                long start = System.nanoTime();
                consumer.subscribe(List.of(arguments[1]));
                while (consumer.poll(Duration.ofMillis(500)).isEmpty()) {
                    if (System.nanoTime() - start > TIMEOUT_NS) throw new IllegalStateException("no record in a minute");
                }
                System.out.println((System.nanoTime() - start) / 1e6);
            }
        }
    }
}
