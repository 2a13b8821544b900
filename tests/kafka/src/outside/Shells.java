package outside;

import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.server.authorizer.Authorizer;

import org.mockito.Answers;
import org.mockito.Mockito;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.function.ToIntFunction;

/** Brokers and controllers as the tests of QuorumTestHarness see them: shells that ask the cluster over an Admin client. */
public final class Shells {
    private final Supplier<Admin> admin;
    private final Supplier<Authorizer> authorizer;

    public Shells(Supplier<Admin> admin, Supplier<Authorizer> authorizer) {
        this.admin = admin;
        this.authorizer = authorizer;
    }

    public BrokerServer broker(
        KafkaConfig config, ToIntFunction<ListenerName> port, Supplier<Optional<String>> metricsPage, Runnable start, Runnable stop
    ) {
        BrokerServer broker = Mockito.mock(BrokerServer.class, Mockito.withSettings().stubOnly());
        SocketServer sockets = sockets(port);
        KRaftMetadataCache cache = cache();
        Object loader = loader();
        GroupCoordinator groups = Mockito.mock(GroupCoordinator.class, Mockito.withSettings().stubOnly());
        Mockito.when(groups.groupMetadataTopicConfigs()).thenReturn(new Properties());
        Object replicas = replicas();
        kafka.log.LogManager logs = Mockito.mock(kafka.log.LogManager.class, Mockito.withSettings().stubOnly());
        Mockito.when(logs.getLog(Mockito.any(), Mockito.anyBoolean())).thenReturn(scala.Option.empty());
        Mockito.when(logs.liveLogDirs()).thenReturn(scala.collection.immutable.Vector$.MODULE$.empty());
        Mockito.when(broker.config()).thenReturn(config);
        Mockito.when(broker.socketServer()).thenReturn(sockets);
        Mockito.when(broker.boundPort(Mockito.any(ListenerName.class))).thenAnswer(i -> port.applyAsInt(i.getArgument(0)));
        Mockito.when(broker.metadataCache()).thenReturn(cache);
        Mockito.when(broker.groupCoordinator()).thenReturn(groups);
        Mockito.when(broker.brokerState()).thenReturn(BrokerState.RUNNING);
        Mockito.when(broker.sharedServer()).thenReturn((kafka.server.SharedServer) loader);
        Mockito.when(broker.replicaManager()).thenReturn((kafka.server.ReplicaManager) replicas);
        Mockito.when(broker.logManager()).thenReturn(logs);
        Mockito.when(broker.clusterId()).thenAnswer(i -> admin.get().describeCluster().clusterId().get(10, TimeUnit.SECONDS));
        Mockito.when(broker.authorizerPlugin()).thenAnswer(i -> plugin(config));
        kafka.server.KafkaApis apis = Mockito.mock(kafka.server.KafkaApis.class, Mockito.withSettings().stubOnly());
        Mockito.when(apis.authorizerPlugin()).thenAnswer(i -> plugin(config));
        Mockito.when(apis.metadataCache()).thenReturn(cache);
        Mockito.when(broker.dataPlaneRequestProcessor()).thenReturn(apis);
        Credentials credentials = new Credentials(admin);
        var tokens = credentials.tokens();
        var provider = credentials.provider();
        var metrics = NodeMetrics.of(metricsPage);
        Mockito.when(broker.tokenCache()).thenReturn(tokens);
        Mockito.when(broker.credentialProvider()).thenReturn(provider);
        Mockito.when(broker.metrics()).thenReturn(metrics);
        Mockito.doAnswer(i -> run(start)).when(broker).startup();
        Mockito.doAnswer(i -> run(stop)).when(broker).shutdown();
        Mockito.doAnswer(i -> run(stop)).when(broker).shutdown(Mockito.any());
        return broker;
    }

    /** A listener with TLS says nothing about the broker's state before a client has logged in. */
    public void waitForBrokers(int count) {
        long deadline = System.currentTimeMillis() + 60_000;
        while (true) {
            try {
                if (admin.get().describeCluster().nodes().get(30, TimeUnit.SECONDS).size() >= count) return;
                Thread.sleep(20);
            } catch (Exception e) {
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException(e);
            }
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException("not all of " + count + " brokers joined");
        }
    }

    public ControllerServer controller(KafkaConfig config, ToIntFunction<ListenerName> port) {
        ControllerServer server = Mockito.mock(ControllerServer.class, Answers.RETURNS_DEEP_STUBS);
        Controller controller = Mockito.mock(Controller.class, Mockito.withSettings().stubOnly());
        Mockito.when(controller.isActive()).thenReturn(true);
        Mockito.when(controller.findAllTopicIds(Mockito.any())).thenAnswer(i -> CompletableFuture.completedFuture(topicIds()));
        Mockito.when(controller.findTopicIds(Mockito.any(), Mockito.any())).thenAnswer(i -> {
            Map<String, Uuid> ids = topicIds();
            Map<String, ResultOrError<Uuid>> named = new HashMap<>();
            for (String name : i.<Collection<String>>getArgument(1)) named.put(name, ResultOrError.of(ids.get(name)));
            return CompletableFuture.completedFuture(named);
        });
        SocketServer sockets = sockets(port);
        Mockito.doReturn(controller).when(server).controller();
        Mockito.doReturn(sockets).when(server).socketServer();
        Mockito.doReturn(config).when(server).config();
        Mockito.doAnswer(i -> plugin(config)).when(server).authorizerPlugin();
        Mockito.when(server.raftManager().raftLog().endOffset()).thenReturn(new org.apache.kafka.raft.LogOffsetMetadata(0));
        return server;
    }

    private scala.Option<Plugin<Authorizer>> plugin(KafkaConfig config) {
        if (config.originals().getOrDefault("authorizer.class.name", "").toString().isEmpty()) return scala.Option.empty();
        return scala.Option.apply(Plugin.wrapInstance(authorizer.get(), null, "authorizer.class.name"));
    }

    private static Object run(Runnable action) {
        action.run();
        return null;
    }

    private static SocketServer sockets(ToIntFunction<ListenerName> port) {
        SocketServer sockets = Mockito.mock(SocketServer.class, Mockito.withSettings().stubOnly());
        Mockito.when(sockets.boundPort(Mockito.any(ListenerName.class))).thenAnswer(i -> port.applyAsInt(i.getArgument(0)));
        return sockets;
    }

    private static Object loader() {
        kafka.server.SharedServer shared = Mockito.mock(kafka.server.SharedServer.class, Answers.RETURNS_DEEP_STUBS);
        Mockito.when(shared.loader().lastAppliedOffset()).thenReturn(Long.MAX_VALUE);
        return shared;
    }

    /** A partition is online here if the cluster says that it has a leader. */
    private Object replicas() {
        kafka.server.ReplicaManager replicas = Mockito.mock(kafka.server.ReplicaManager.class, Mockito.withSettings().stubOnly());
        Mockito.when(replicas.onlinePartition(Mockito.any())).thenAnswer(i -> {
            TopicPartition wanted = i.getArgument(0);
            if (leader(wanted.topic(), wanted.partition()).isEmpty()) return scala.Option.empty();
            kafka.cluster.Partition partition = Mockito.mock(kafka.cluster.Partition.class, Answers.RETURNS_DEEP_STUBS);
            Mockito.doReturn(scala.Option.apply(Mockito.mock(org.apache.kafka.storage.internals.log.UnifiedLog.class))).when(partition).leaderLogIfLocal();
            Mockito.doReturn(scala.Option.apply((Object) leader(wanted.topic(), wanted.partition()).get().leader())).when(partition).leaderReplicaIdOpt();
            return scala.Option.apply(partition);
        });
        return replicas;
    }

    private KRaftMetadataCache cache() {
        KRaftMetadataCache cache = Mockito.mock(KRaftMetadataCache.class, Mockito.withSettings().stubOnly());
        Mockito.when(cache.numPartitions(Mockito.anyString())).thenAnswer(i -> describe(i.getArgument(0)).map(t -> t.partitions().size()));
        Mockito.when(cache.contains(Mockito.anyString())).thenAnswer(i -> describe(i.getArgument(0)).isPresent());
        Mockito.when(cache.hasAliveBroker(Mockito.anyInt())).thenReturn(true);
        Mockito.when(cache.getLeaderAndIsr(Mockito.anyString(), Mockito.anyInt())).thenAnswer(i -> leader(i.getArgument(0), i.getArgument(1)));
        return cache;
    }

    private Optional<LeaderAndIsr> leader(String topic, int partition) {
        return describe(topic).flatMap(t -> {
            for (TopicPartitionInfo q : t.partitions()) {
                if (q.partition() == partition) {
                    int leader = q.leader() == null ? LeaderAndIsr.NO_LEADER : q.leader().id();
                    return Optional.of(new LeaderAndIsr(leader, q.isr().stream().map(Node::id).toList()));
                }
            }
            return Optional.empty();
        });
    }

    private Optional<TopicDescription> describe(String topic) {
        try {
            return Optional.of(admin.get().describeTopics(List.of(topic)).allTopicNames().get(10, TimeUnit.SECONDS).get(topic));
        } catch (Exception e) {
            return Optional.empty();
        }
    }

    private Map<String, Uuid> topicIds() throws Exception {
        Map<String, Uuid> ids = new HashMap<>();
        var options = new org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(true);
        for (TopicListing t : admin.get().listTopics(options).listings().get(10, TimeUnit.SECONDS)) ids.put(t.name(), t.topicId());
        return ids;
    }
}
