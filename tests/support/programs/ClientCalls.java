import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;

/**
 * Calls of the Java administrator and producer, one after another; every line says a call and what it returned or threw.
 * Arguments: --bootstrap-server ADDRESS TOPIC.
 */
public class ClientCalls {
    private static final long DEADLINE_MILLIS = 60_000;

    private static void say(String what, Callable<Object> call) {
        Object result;
        try {
            result = call.call();
        } catch (ExecutionException error) {
            result = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            result = error.getClass().getSimpleName();
        }
        System.out.println(what + ": " + result);
    }

    public static void main(String[] arguments) throws Exception {
        String address = arguments[1];
        String topic = arguments[2];
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", address))) {
            topics(admin, topic);
            produce(address, topic);
            offsets(admin, topic);
            transact(address, topic);
            transactions(admin, topic);
            groups(admin, address, topic);
            say("delete the topic", () -> admin.deleteTopics(List.of(topic)).all().get());
            say("delete it again", () -> admin.deleteTopics(List.of(topic)).all().get());
        }
    }

    private static void topics(Admin admin, String topic) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        say("create", () -> admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).numPartitions(topic).get());
        say("create again", () -> admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
        say("more partitions", () -> {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get();
            until(() -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 2);
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        });
        say("set", () -> {
            ConfigEntry entry = new ConfigEntry("retention.ms", "123456");
            AlterConfigOp change = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            until(() -> shown(admin, resource).equals("123456"));
            return shown(admin, resource);
        });
        say("a node", () -> admin.describeCluster().nodes().get().size());
        say("features", () -> admin.describeFeatures().featureMetadata().get().finalizedFeatures()
            .containsKey("metadata.version"));
    }

    private static String shown(Admin admin, ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
    }

    private static void produce(String address, String topic) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            say("produce with " + codec, () -> {
                try (KafkaProducer<String, String> producer = producer(address, Map.of("compression.type", codec))) {
                    long last = -1;
                    for (int number = 0; number < 10; number++) {
                        last = producer.send(new ProducerRecord<>(topic, 0, "key", codec + number)).get().offset();
                    }
                    return last;
                }
            });
        }
    }

    private static void offsets(Admin admin, String topic) {
        TopicPartition partition = new TopicPartition(topic, 0);
        say("end", () -> admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all().get().get(partition).offset());
        say("delete records", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(5)))
            .lowWatermarks().get(partition).get().lowWatermark());
        say("start", () -> admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get().get(partition).offset());
        say("producers", () -> admin.describeProducers(List.of(partition)).all().get().get(partition)
            .activeProducers().size());
    }

    /** Two transactions: one is committed with offsets of a group, the other aborted. */
    private static void transact(String address, String topic) {
        TopicPartition partition = new TopicPartition(topic, 1);
        Map<TopicPartition, OffsetAndMetadata> processed = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(7));
        say("transactions", () -> {
            try (KafkaProducer<String, String> producer = producer(address, Map.of("transactional.id", topic))) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 1, "key", "committed"));
                producer.sendOffsetsToTransaction(processed, new ConsumerGroupMetadata(topic));
                producer.commitTransaction();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 1, "key", "aborted")).get();
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(9)), new ConsumerGroupMetadata(topic));
                producer.abortTransaction();
                return "done";
            }
        });
        // A generation of a group that nobody has joined.
        say("offsets of an unknown generation", () -> {
            try (KafkaProducer<String, String> producer = producer(address, Map.of("transactional.id", topic + "-2"))) {
                producer.initTransactions();
                producer.beginTransaction();
                try {
                    producer.sendOffsetsToTransaction(
                        processed, new ConsumerGroupMetadata(topic + "-2", 5, "member", java.util.Optional.empty()));
                    producer.commitTransaction();
                } finally {
                    producer.abortTransaction();
                }
                return "possible";
            }
        });
        say("what is committed", () -> {
            try (KafkaConsumer<String, String> consumer = consumer(address, topic, "read_committed")) {
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                List<String> values = new ArrayList<>();
                long end = consumer.endOffsets(List.of(partition)).get(partition);
                until(() -> {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        values.add(record.value());
                    }
                    return consumer.position(partition) >= end;
                });
                return values;
            }
        });
    }

    private static void transactions(Admin admin, String topic) {
        say("the transaction", () -> admin.describeTransactions(List.of(topic)).description(topic).get().state());
        say("listed", () -> admin.listTransactions().all().get().stream()
            .filter(listing -> listing.transactionalId().equals(topic)).count());
    }

    private static void groups(Admin admin, String address, String topic) {
        TopicPartition partition = new TopicPartition(topic, 0);
        say("committed offset", () -> admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get()
            .get(partition).offset());
        say("delete a group in use", () -> {
            try (KafkaConsumer<String, String> consumer = consumer(address, topic + "-used", "read_uncommitted")) {
                consumer.subscribe(List.of(topic));
                until(() -> {
                    consumer.poll(Duration.ofMillis(50));
                    return !consumer.assignment().isEmpty();
                });
                return admin.deleteConsumerGroups(List.of(topic + "-used")).all().get();
            }
        });
        say("delete the group", () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
        say("delete a group that is not there", () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
        say("groups", () -> {
            Set<String> names = new TreeSet<>();
            admin.listGroups().all().get().forEach(group -> names.add(group.groupId()));
            names.removeIf(name -> !name.startsWith(topic));
            return names;
        });
    }

    private static void until(Callable<Boolean> condition) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MILLIS;
        while (!condition.call()) {
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException("still not so");
        }
    }

    private static KafkaProducer<String, String> producer(String address, Map<String, String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.putAll(settings);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String address, String group, String isolation) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("group.id", group);
        properties.put("isolation.level", isolation);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }
}
