import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * What the Java consumer's calls return and throw, one line for each: arguments are the broker's address and a topic
 * with one partition that holds ten records. Nothing of it depends on time.
 */
public class ConsumerCalls {
    private static final Duration LONG = Duration.ofSeconds(90);
    private static final Duration SHORT = Duration.ofMillis(50);

    private interface Call {
        Object run() throws Exception;
    }

    private static void say(String what, Call call) {
        try {
            System.out.println(what + ": " + call.run());
        } catch (Exception error) {
            System.out.println(what + ": " + error.getClass().getSimpleName());
        }
    }

    public static void main(String[] arguments) {
        String address = arguments[1];
        String topic = arguments[2];
        String protocol = arguments[3];
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(address, topic + protocol, protocol, "earliest")) {
            say("partitionsFor", () -> consumer.partitionsFor(topic).size());
            say("poll before subscribing", () -> consumer.poll(Duration.ZERO).count());
            consumer.subscribe(List.of(topic));
            say("assign after subscribing", () -> {
                consumer.assign(List.of(partition));
                return "possible";
            });
            say("first poll of nothing", () -> consumer.poll(Duration.ZERO).count());
            say("records", () -> read(consumer, 10));
            say("assignment", () -> consumer.assignment().equals(java.util.Set.of(partition)));
            say("position", () -> consumer.position(partition));
            say("committed before", () -> consumer.committed(java.util.Set.of(partition)).get(partition));
            say("seek", () -> {
                consumer.seek(partition, 7);
                return consumer.position(partition) + " " + read(consumer, 3);
            });
            say("seekToBeginning", () -> {
                consumer.seekToBeginning(List.of(partition));
                return consumer.position(partition);
            });
            say("seekToEnd", () -> {
                consumer.seekToEnd(List.of(partition));
                return consumer.position(partition);
            });
            say("seek out of range is reset", () -> {
                consumer.seek(partition, 1000);
                return read(consumer, 1).charAt(0);
            });
            say("seek below zero", () -> {
                consumer.seek(partition, -1);
                return "possible";
            });
            say("paused", () -> {
                consumer.seek(partition, 0);
                consumer.pause(List.of(partition));
                return consumer.poll(SHORT).count() + " " + consumer.paused().size();
            });
            say("resumed", () -> {
                consumer.resume(List.of(partition));
                return read(consumer, 10);
            });
            say("commitSync", () -> {
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(4, "four")));
                OffsetAndMetadata found = consumer.committed(java.util.Set.of(partition)).get(partition);
                return found.offset() + " " + found.metadata();
            });
            say("commitAsync", () -> {
                StringBuilder called = new StringBuilder();
                consumer.commitAsync(
                    Map.of(partition, new OffsetAndMetadata(6)),
                    (offsets, error) -> called.append(offsets.get(partition).offset()).append(' ').append(error));
                long deadline = System.currentTimeMillis() + LONG.toMillis();
                while (called.isEmpty() && System.currentTimeMillis() < deadline) consumer.poll(SHORT);
                return called;
            });
            say("another thread", () -> {
                String[] said = {"possible"};
                consumer.seekToEnd(List.of(partition));
                consumer.position(partition);
                Thread other = new Thread(() -> {
                    // The first thread is in poll by the time this one is refused.
                    long deadline = System.currentTimeMillis() + LONG.toMillis();
                    while (said[0].equals("possible") && System.currentTimeMillis() < deadline) {
                        try {
                            consumer.assignment();
                        } catch (RuntimeException error) {
                            said[0] = error.getClass().getSimpleName();
                        }
                    }
                    consumer.wakeup();
                });
                other.start();
                String woken = "not woken";
                long deadline = System.currentTimeMillis() + LONG.toMillis();
                while (woken.equals("not woken") && System.currentTimeMillis() < deadline) {
                    try {
                        consumer.poll(LONG);
                    } catch (org.apache.kafka.common.errors.WakeupException error) {
                        woken = "WakeupException";
                    } catch (java.util.ConcurrentModificationException error) {
                        // It was the other thread's turn.
                    }
                }
                other.join();
                return said[0] + ", poll: " + woken;
            });
            say("wakeup before poll", () -> {
                consumer.wakeup();
                return consumer.poll(LONG).count();
            });
        }
        try (KafkaConsumer<String, String> consumer = consumer(address, topic + protocol, protocol, "earliest");
             KafkaConsumer<String, String> stranger = consumer(address, topic + protocol, protocol, "earliest")) {
            consumer.subscribe(List.of(topic));
            say("next member starts at", () -> read(consumer, 1).charAt(0));
            // Whoever is no member cannot commit for a group that has some. That is final: neither call tries again.
            stranger.assign(List.of(partition));
            say("commitSync of a stranger", () -> {
                stranger.commitSync(Map.of(partition, new OffsetAndMetadata(1)));
                return "possible";
            });
            say("commitAsync of a stranger", () -> commitAsync(stranger, partition, 1, 2));
            say("commitAsync of a member", () -> commitAsync(consumer, partition, 7, 8));
            say("what they left", () -> consumer.committed(java.util.Set.of(partition)).get(partition).offset());
        }
        try (KafkaConsumer<String, String> consumer = consumer(address, topic + "-none", protocol, "none")) {
            consumer.subscribe(List.of(topic));
            say("no offset and no policy", () -> read(consumer, 1));
        }
        try (KafkaConsumer<String, String> consumer = consumer(address, topic + "-alone", "classic", "earliest")) {
            consumer.assign(List.of(partition));
            say("subscribe after assigning", () -> {
                consumer.subscribe(List.of(topic));
                return "possible";
            });
            say("alone", () -> read(consumer, 10));
            say("alone commits", () -> {
                consumer.commitSync();
                return consumer.committed(java.util.Set.of(partition)).get(partition).offset();
            });
            say("position of an unassigned partition", () -> {
                TopicPartition missing = new TopicPartition(topic, 99);
                consumer.assign(List.of(missing));
                return consumer.position(missing, SHORT);
            });
        }
        // Nobody listens there: what ends, ends by itself.
        KafkaConsumer<String, String> lost = consumer("127.0.0.1:1", topic, protocol, "earliest");
        say("partitionsFor without a broker", () -> lost.partitionsFor(topic).size());
        say("committed without a broker", () -> lost.committed(java.util.Set.of(partition)).size());
        lost.subscribe(List.of(topic));
        say("poll without a broker", () -> {
            long start = System.nanoTime();
            int count = lost.poll(Duration.ofMillis(300)).count();
            long milliseconds = (System.nanoTime() - start) / 1_000_000;
            // Clocks of whole milliseconds may end it a moment early.
            return count + (milliseconds >= 290 && milliseconds < 10_000 ? " in time" : " after " + milliseconds);
        });
        lost.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ZERO));
    }

    private static KafkaConsumer<String, String> consumer(String address, String group, String protocol, String reset) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("group.id", group);
        properties.put("group.protocol", protocol);
        properties.put("auto.offset.reset", reset);
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "4");
        // For calls that are given no time of their own, where nobody answers.
        properties.put("default.api.timeout.ms", address.endsWith(":1") ? "500" : "60000");
        properties.put("request.timeout.ms", address.endsWith(":1") ? "400" : "30000");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    /** What the callbacks were told of offsets that were committed one after another, without waiting. */
    private static Object commitAsync(KafkaConsumer<String, String> consumer, TopicPartition partition, int... offsets) {
        List<String> called = new ArrayList<>();
        for (int offset : offsets) {
            consumer.commitAsync(Map.of(partition, new OffsetAndMetadata(offset)), (told, error) -> called.add(
                offset + " " + (error == null ? "done" : error.getClass().getSimpleName())));
        }
        long deadline = System.currentTimeMillis() + LONG.toMillis();
        while (called.size() < offsets.length && System.currentTimeMillis() < deadline) consumer.poll(SHORT);
        // A second answer to the same commit would come now.
        consumer.poll(SHORT);
        return called;
    }

    /** The offsets of the next records and the size of the largest poll. */
    private static String read(KafkaConsumer<String, String> consumer, int count) {
        StringBuilder offsets = new StringBuilder();
        int found = 0;
        int largest = 0;
        long deadline = System.currentTimeMillis() + LONG.toMillis();
        while (found < count && System.currentTimeMillis() < deadline) {
            ConsumerRecords<String, String> records = consumer.poll(SHORT);
            largest = Math.max(largest, records.count());
            for (ConsumerRecord<String, String> record : records) {
                offsets.append(record.offset()).append(' ');
                found++;
            }
        }
        return offsets + "in polls of up to " + largest;
    }
}
