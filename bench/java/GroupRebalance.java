import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * One member joins a stable group, and leaves it again, several times: BOOTSTRAP TOPIC PARTITIONS MEMBERS GROUP ROUNDS
 * KEY=VALUE... Prints, for each round, the milliseconds until every member had its even share and every partition
 * exactly one owner: after the join, and after the leave.
 */
public class GroupRebalance {
    private static final long TIMEOUT_NS = 60_000_000_000L;
    private static final Duration POLL = Duration.ofMillis(5);
    private static final long QUIET_MS = 100;

    /** Who owns what, as the members' own callbacks tell it. */
    private static final class Owners {
        private final int partitions;
        private final Map<Member, Set<TopicPartition>> owned = new HashMap<>();
        private int members;
        private long settledAt;

        Owners(int partitions) {
            this.partitions = partitions;
        }

        synchronized void expect(int count) {
            members = count;
            changed();
        }

        synchronized void add(Member member, Collection<TopicPartition> gained) {
            owned.computeIfAbsent(member, any -> new HashSet<>()).addAll(gained);
            changed();
        }

        synchronized void remove(Member member, Collection<TopicPartition> lost) {
            owned.computeIfAbsent(member, any -> new HashSet<>()).removeAll(lost);
            changed();
        }

        synchronized void forget(Member member) {
            owned.remove(member);
            changed();
        }

        synchronized long settled() throws InterruptedException {
            long deadline = System.nanoTime() + TIMEOUT_NS;
            while (settledAt == 0) {
                long left = deadline - System.nanoTime();
                if (left <= 0) throw new IllegalStateException("not settled in a minute: " + owned.values().stream().map(Set::size).toList());
                wait(left / 1_000_000 + 1);
            }
            return settledAt;
        }

        private void changed() {
            boolean settled = isSettled();
            if (settled && settledAt == 0) settledAt = System.nanoTime();
            if (!settled) settledAt = 0;
            notifyAll();
        }

        private boolean isSettled() {
            if (owned.size() != members) return false;
            Set<TopicPartition> all = new HashSet<>();
            for (Set<TopicPartition> share : owned.values()) {
                if (share.size() != partitions / members) return false;
                all.addAll(share);
            }
            return all.size() == partitions;
        }
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final String topic;
        private final Owners owners;
        private volatile boolean leaving;

        Member(Map<String, Object> settings, String topic, Owners owners) {
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            this.topic = topic;
            this.owners = owners;
            setDaemon(true);
        }

        @Override
        public void run() {
            try (consumer) {
                consumer.subscribe(List.of(topic), this);
                while (!leaving) consumer.poll(POLL);
            } finally {
                owners.forget(this);
            }
        }

        void leave() throws InterruptedException {
            leaving = true;
            join();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owners.add(this, partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            owners.remove(this, partitions);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[3]), rounds = Integer.parseInt(arguments[5]);
        Owners owners = new Owners(Integer.parseInt(arguments[2]));
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[4]);
        settings.put("enable.auto.commit", false);
        for (int index = 6; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        List<Member> members = new ArrayList<>();
        owners.expect(count - 1);
        try {
            for (int index = 0; index < count - 1; index++) {
                members.add(new Member(settings, topic, owners));
                members.get(index).start();
            }
            owners.settled();
            for (int round = 0; round < rounds; round++) {
                Thread.sleep(QUIET_MS);
                Member last = new Member(settings, topic, owners);
                members.add(last);
                owners.expect(count);
                long start = System.nanoTime();
                last.start();
                double joined = (owners.settled() - start) / 1e6;
                Thread.sleep(QUIET_MS);
                owners.expect(count - 1);
                start = System.nanoTime();
                last.leave();
                members.remove(last);
                System.out.println(joined + " " + (owners.settled() - start) / 1e6);
            }
        } finally {
            for (Member member : members) member.leaving = true;
            for (Member member : members) member.join();
        }
    }
}
