import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** What Apache Kafka's controller makes of partitions and wishes, one JSON object per line, as JSON lines. */
public class PartitionChanges {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode given = json.readTree(line);
            int[] replicas = ints(given.get("replicas"));
            PartitionRegistration partition = new PartitionRegistration.Builder()
                .setReplicas(replicas)
                .setDirectories(Arrays.stream(replicas).mapToObj(PartitionChanges::directory).toArray(Uuid[]::new))
                .setIsr(ints(given.get("isr")))
                .setElr(ints(given.get("elr")))
                .setLastKnownElr(ints(given.get("last_known")))
                .setAddingReplicas(ints(given.get("adding")))
                .setRemovingReplicas(ints(given.get("removing")))
                .setLeader(given.get("leader").asInt())
                .setLeaderRecoveryState(LeaderRecoveryState.of((byte) given.get("recovery").asInt()))
                .setLeaderEpoch(5)
                .setPartitionEpoch(9)
                .build();
            List<Integer> alive = list(given.get("alive"));
            PartitionChangeBuilder builder = new PartitionChangeBuilder(
                partition, Uuid.ONE_UUID, 0, alive::contains, MetadataVersion.LATEST_PRODUCTION,
                given.get("min_isr").asInt(), given.get("elr_enabled").asBoolean());
            builder.setDefaultDirProvider(PartitionChanges::directory);
            builder.setElection(PartitionChangeBuilder.Election.valueOf(given.get("election").asText()));
            if (given.hasNonNull("new_isr")) builder.setTargetIsr(list(given.get("new_isr")));
            if (given.hasNonNull("new_replicas")) builder.setTargetReplicas(list(given.get("new_replicas")));
            if (given.hasNonNull("new_adding")) builder.setTargetAdding(list(given.get("new_adding")));
            if (given.hasNonNull("new_removing")) builder.setTargetRemoving(list(given.get("new_removing")));
            if (given.hasNonNull("unclean")) builder.setUncleanShutdownReplicas(list(given.get("unclean")));
            Optional<ApiMessageAndVersion> built = builder.build();
            ObjectNode answer = json.createObjectNode();
            if (built.isPresent()) {
                PartitionChangeRecord record = (PartitionChangeRecord) built.get().message();
                answer.put("leader", record.leader());
                answer.put("recovery", record.leaderRecoveryState());
                put(answer, "isr", record.isr());
                put(answer, "replicas", record.replicas());
                put(answer, "adding", record.addingReplicas());
                put(answer, "removing", record.removingReplicas());
                put(answer, "elr", record.eligibleLeaderReplicas());
                put(answer, "last_known", record.lastKnownElr());
            }
            System.out.println(answer);
        }
    }

    private static Uuid directory(int broker) {
        return new Uuid(1000, broker);
    }

    private static int[] ints(JsonNode node) {
        return list(node).stream().mapToInt(Integer::intValue).toArray();
    }

    private static List<Integer> list(JsonNode node) {
        List<Integer> values = new ArrayList<>();
        for (JsonNode each : node) values.add(each.asInt());
        return values;
    }

    private static void put(ObjectNode answer, String name, List<Integer> values) {
        if (values == null) {
            answer.putNull(name);
        } else {
            ArrayNode array = answer.putArray(name);
            values.forEach(array::add);
        }
    }
}
