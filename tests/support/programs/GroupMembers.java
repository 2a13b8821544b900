import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Members of consumer groups on command. Standard input has one command per line:
 *
 *   open NAME key=value...     a consumer with these settings, client.id being its name
 *   subscribe NAME TOPIC...    to these topics
 *   settle NAME=COUNT...       polls these members until they own so many partitions (or N..M), none twice
 *   close NAME                 leaves
 *
 * Standard output tells, in the order it happens, what each member's listener is called with, and what each member
 * owns after every "settle".
 */
public class GroupMembers {
    private static final long SETTLE_MILLIS_MAX = 120_000;

    private record Member(String name, KafkaConsumer<byte[], byte[]> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            say("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            say("lost", partitions);
        }

        void say(String what, Collection<TopicPartition> partitions) {
            Set<String> names = partitions.stream().map(TopicPartition::toString).collect(Collectors.toCollection(TreeSet::new));
            System.out.println((name + " " + what + " " + String.join(" ", names)).trim());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new LinkedHashMap<>();
        try {
            BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                List<String> words = Arrays.asList(line.trim().split(" "));
                List<String> rest = words.size() > 2 ? words.subList(2, words.size()) : List.of();
                switch (words.get(0)) {
                    case "open" -> members.put(words.get(1), open(arguments, words.get(1), rest));
                    case "subscribe" -> {
                        Member member = members.get(words.get(1));
                        member.consumer.subscribe(rest, member);
                    }
                    case "settle" -> settle(members, words.subList(1, words.size()));
                    case "close" -> members.remove(words.get(1)).consumer.close();
                    default -> throw new IllegalArgumentException(line);
                }
            }
        } finally {
            members.values().forEach(member -> member.consumer.close());
        }
    }

    private static Member open(String[] arguments, String name, List<String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[1]);
        properties.put("client.id", name);
        properties.put("auto.offset.reset", "earliest");
        properties.put("metadata.max.age.ms", "500");
        for (String setting : settings) {
            String[] pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        return new Member(name, new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
    }

    private static void settle(Map<String, Member> members, List<String> wanted) {
        Map<Member, String> counts = new LinkedHashMap<>();
        for (String word : wanted) {
            String[] pair = word.split("=");
            counts.put(members.get(pair[0]), pair[1]);
        }
        long deadline = System.currentTimeMillis() + SETTLE_MILLIS_MAX;
        while (!settled(counts)) {
            if (System.currentTimeMillis() > deadline) {
                counts.keySet().forEach(member -> member.say("owns", member.consumer.assignment()));
                throw new IllegalStateException("not settled: " + wanted);
            }
            counts.keySet().forEach(member -> member.consumer.poll(Duration.ofMillis(20)));
        }
        counts.keySet().forEach(member -> member.say("owns", member.consumer.assignment()));
    }

    private static boolean settled(Map<Member, String> counts) {
        Set<TopicPartition> all = new java.util.HashSet<>();
        int total = 0;
        for (Map.Entry<Member, String> entry : counts.entrySet()) {
            Set<TopicPartition> owned = entry.getKey().consumer.assignment();
            String[] bounds = entry.getValue().split("\\.\\.");
            if (owned.size() < Integer.parseInt(bounds[0])) return false;
            if (owned.size() > Integer.parseInt(bounds[bounds.length - 1])) return false;
            total += owned.size();
            all.addAll(owned);
        }
        return all.size() == total;
    }
}
