import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Writes at a fixed rate: BOOTSTRAP TOPIC RECORDS SIZE RATE SETTING=VALUE...
 * Like ProducerPerformance, it sleeps for 2 ms or more at a time and then sends what is due; unlike it, it measures
 * latency in microseconds. Prints records, milliseconds, and the percentiles 50, 99 and 99.9 of the milliseconds from
 * the send of a record to its acknowledgement.
 */
public class PacedProducer {
    private static final long SLEEP_NANOS = 2_000_000;

    public static void main(String[] arguments) {
        String topic = arguments[1];
        int records = Integer.parseInt(arguments[2]), rate = Integer.parseInt(arguments[4]);
        byte[] payload = new byte[Integer.parseInt(arguments[3])];
        new Random(7).nextBytes(payload);
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", arguments[0]));
        for (String pair : Arrays.asList(arguments).subList(5, arguments.length)) {
            settings.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        long[] latencies = new long[records];
        AtomicInteger acknowledged = new AtomicInteger();
        long start = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int sent = 0; sent < records; sent++) {
                long ahead = start + sent * 1_000_000_000L / rate - System.nanoTime();
                if (ahead >= SLEEP_NANOS) {
                    LockSupport.parkNanos(ahead);
                }
                long before = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, payload), (metadata, error) -> {
                    if (error == null) {
                        latencies[acknowledged.getAndIncrement()] = System.nanoTime() - before;
                    }
                });
            }
        }
        double milliseconds = (System.nanoTime() - start) / 1e6;
        int count = acknowledged.get();
        Arrays.sort(latencies, 0, count);
        System.out.println(count + " " + milliseconds + " " + at(latencies, count, 0.5)
            + " " + at(latencies, count, 0.99) + " " + at(latencies, count, 0.999));
    }

    private static double at(long[] sorted, int count, double share) {
        return sorted[Math.min(count - 1, (int) (count * share))] / 1e6;
    }
}
