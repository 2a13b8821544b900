import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** Reads a topic from its start without a group: BOOTSTRAP TOPIC PARTITIONS RECORDS; prints records and milliseconds. */
public class AssignedConsumer {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        long wanted = Long.parseLong(arguments[3]), seen = 0;
        List<TopicPartition> partitions = IntStream.range(0, Integer.parseInt(arguments[2])).mapToObj(i -> new TopicPartition(topic, i)).toList();
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "enable.auto.commit", false);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long start = System.nanoTime(), deadline = start + 120_000_000_000L;
            while (seen < wanted && System.nanoTime() < deadline) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                seen += records.count();
            }
            System.out.println(seen + " " + (System.nanoTime() - start) / 1_000_000.0);
        }
    }
}
