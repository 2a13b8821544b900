package outside;

import kafka.network.SocketServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.ClusterResourceListener;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandlerException;

import org.mockito.Mockito;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** A ClusterInstance in front of brokers that are somewhere else. brokers() are shells: they know ports and configs. */
public class ExternalCluster implements ClusterInstance {
    static final String LAUNCHER = System.getProperty("outside.launcher");
    private static final Set<ExternalCluster> LIVE = java.util.concurrent.ConcurrentHashMap.newKeySet();
    private static final java.util.concurrent.atomic.AtomicBoolean HOOKED = new java.util.concurrent.atomic.AtomicBoolean();
    private volatile String bootstrap;
    private final ClusterConfig config;
    private Path dir;
    private Map<Integer, KafkaBroker> shells;
    private Admin shared;

    ExternalCluster(String bootstrap, ClusterConfig config) {
        this.bootstrap = bootstrap;
        this.config = config;
    }

    private synchronized Admin shared() {
        if (shared == null) shared = Admin.create(Map.of("bootstrap.servers", bootstrap));
        return shared;
    }

    private Optional<TopicDescription> describe(String topic) {
        try {
            return Optional.of(shared().describeTopics(List.of(topic)).allTopicNames().get(10, TimeUnit.SECONDS).get(topic));
        } catch (Exception e) {
            return Optional.empty();
        }
    }

    private KafkaBroker shell(Node n) {
        Properties p = new Properties();
        config.serverProperties().forEach(p::put);
        config.perServerOverrideProperties().getOrDefault(n.id(), Map.of()).forEach(p::put);
        p.put("process.roles", "broker");
        p.put("node.id", Integer.toString(n.id()));
        p.put("controller.quorum.voters", (n.id() + 3000) + "@127.0.0.1:1");
        p.put("controller.listener.names", "CONTROLLER");
        p.put("listeners", "EXTERNAL://" + n.host() + ":" + n.port());
        p.put("listener.security.protocol.map", "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT");
        p.put("inter.broker.listener.name", "EXTERNAL");
        p.put("log.dirs", "/nonexistent");
        KafkaConfig kc = new KafkaConfig(p, false);
        MetadataCache cache = Mockito.mock(MetadataCache.class);
        Mockito.when(cache.numPartitions(Mockito.anyString())).thenAnswer(i -> describe(i.getArgument(0)).map(t -> t.partitions().size()));
        Mockito.when(cache.contains(Mockito.anyString())).thenAnswer(i -> describe(i.getArgument(0)).isPresent());
        Mockito.when(cache.getLeaderAndIsr(Mockito.anyString(), Mockito.anyInt())).thenAnswer(i -> describe(i.getArgument(0)).flatMap(t -> {
            for (TopicPartitionInfo q : t.partitions()) {
                if (q.partition() == (int) i.getArgument(1)) {
                    int leader = q.leader() == null ? LeaderAndIsr.NO_LEADER : q.leader().id();
                    return Optional.of(new LeaderAndIsr(leader, q.isr().stream().map(Node::id).toList()));
                }
            }
            return Optional.empty();
        }));
        Mockito.when(cache.getAliveBrokerNodes(Mockito.any(ListenerName.class))).thenAnswer(i -> new ArrayList<>(shared().describeCluster().nodes().get(10, TimeUnit.SECONDS)));
        SocketServer ss = Mockito.mock(SocketServer.class);
        Mockito.when(ss.boundPort(Mockito.any(ListenerName.class))).thenReturn(n.port());
        GroupCoordinator gc = Mockito.mock(GroupCoordinator.class);
        Mockito.when(gc.groupMetadataTopicConfigs()).thenReturn(new Properties());
        KafkaBroker b = Mockito.mock(KafkaBroker.class);
        Mockito.when(b.config()).thenReturn(kc);
        Mockito.when(b.metadataCache()).thenReturn(cache);
        Mockito.when(b.socketServer()).thenReturn(ss);
        Mockito.when(b.boundPort(Mockito.any(ListenerName.class))).thenReturn(n.port());
        Mockito.when(b.groupCoordinator()).thenReturn(gc);
        Mockito.when(b.isShutdown()).thenReturn(false);
        Mockito.when(b.clusterId()).thenAnswer(i -> clusterId());
        Mockito.when(b.authorizerPlugin()).thenReturn(scala.Option.empty());
        return b;
    }

    @Override
    public synchronized Map<Integer, KafkaBroker> brokers() {
        if (shells == null) {
            try {
                shells = new LinkedHashMap<>();
                for (Node n : shared().describeCluster().nodes().get(10, TimeUnit.SECONDS)) shells.put(n.id(), shell(n));
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
        return shells;
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        List<Integer> ports = new ArrayList<>();
        for (String hp : bootstrap.split(",")) ports.add(Integer.parseInt(hp.substring(hp.lastIndexOf(':') + 1)));
        return ports;
    }

    @Override public Type type() { return Type.KRAFT; }
    @Override public Map<Integer, ControllerServer> controllers() { return Map.of(); }
    @Override public ClusterConfig config() { return config; }
    @Override public Set<Integer> controllerIds() { return LAUNCHER == null ? Set.of() : Set.of(config.numBrokers() > 1 ? 3000 : 0); }
    @Override public ListenerName clientListener() { return config.brokerListenerName(); }
    @Override public ListenerName controllerListenerName() { return config.controllerListenerName(); }
    @Override public String bootstrapServers() { return bootstrap; }
    @Override
    public String bootstrapControllers() {
        if (dir == null) throw new UnsupportedOperationException("no controller endpoint");
        try {
            return Files.readString(dir.resolve("controller"));
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override public Set<GroupProtocol> supportedGroupProtocols() { return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER); }
    @Override public Optional<FaultHandlerException> firstFatalException() { return Optional.empty(); }
    @Override public Optional<FaultHandlerException> firstNonFatalException() { return Optional.empty(); }

    private String launch(String... args) {
        try {
            List<String> cmd = new ArrayList<>(List.of(LAUNCHER));
            cmd.addAll(List.of(args));
            Process p = new ProcessBuilder(cmd).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            p.getOutputStream().close();
            String out = new String(p.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
            if (p.waitFor() != 0) throw new IllegalStateException(cmd + " ended with " + p.exitValue() + ": " + out);
            return out;
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void write(Path f, Map<String, String> props) throws IOException {
        StringBuilder b = new StringBuilder();
        props.forEach((k, v) -> b.append(k).append('=').append(v).append('\n'));
        Files.writeString(f, b);
    }

    @Override
    public synchronized void start() {
        if (LAUNCHER == null || dir != null) return;
        try {
            dir = Files.createTempDirectory("outside-cluster");
            if (HOOKED.compareAndSet(false, true)) Runtime.getRuntime().addShutdownHook(new Thread(() -> LIVE.forEach(ExternalCluster::stop)));
            LIVE.add(this);
            Path props = dir.resolve("server.properties");
            Map<String, String> settings = new LinkedHashMap<>(config.serverProperties());
            String reporters = settings.remove("metric.reporters");
            write(props, settings);
            Files.writeString(dir.resolve("disks"), Integer.toString(config.numDisksPerBroker()));
            if (config.metadataVersion().isLessThan(MetadataVersion.latestProduction())) {
                Files.writeString(dir.resolve("release"), config.metadataVersion().version());
            }
            for (Map.Entry<Integer, Map<String, String>> e : config.perServerOverrideProperties().entrySet()) {
                write(dir.resolve("server.properties." + e.getKey()), e.getValue());
            }
            String out = launch("start", dir.toString(), Integer.toString(config.numBrokers()), props.toString());
            bootstrap = out.substring(out.lastIndexOf('\n') + 1);
            if (reporters != null) hostReporters(reporters);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * A Java class cannot run inside a foreign broker, so the broker's metric reporters live here; they are told the
     * cluster id that the broker gives over the wire. What a test says about the broker's own side is thus not proven.
     */
    private void hostReporters(String names) {
        for (String name : names.split(",")) {
            try {
                Object reporter = Class.forName(name.trim()).getDeclaredConstructor().newInstance();
                ((Configurable) reporter).configure(Map.of("node.id", "0", "broker.id", "0", "process.roles", "broker,controller", "client.id", ""));
                if (reporter instanceof ClusterResourceListener listener) listener.onUpdate(new ClusterResource(clusterId()));
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    @Override
    public synchronized void stop() {
        if (shared != null) shared.close(java.time.Duration.ofSeconds(5));
        shared = null;
        LIVE.remove(this);
        if (dir != null) launch("stop", dir.toString());
        dir = null;
    }

    @Override public boolean started() { return LAUNCHER == null || dir != null; }
    @Override public boolean stopped() { return !started(); }

    @Override
    public void shutdownBroker(int id) {
        if (dir == null) throw new UnsupportedOperationException("cannot stop a fixed broker");
        KafkaBroker broker = brokers().get(id);
        launch("stop-broker", dir.toString(), Integer.toString(id));
        Mockito.when(broker.isShutdown()).thenReturn(true);
    }

    @Override
    public void startBroker(int id) {
        if (dir == null) throw new UnsupportedOperationException("cannot start a fixed broker");
        launch("start-broker", dir.toString(), Integer.toString(id));
        Mockito.when(brokers().get(id).isShutdown()).thenReturn(false);
    }
    @Override public void waitForReadyBrokers() { }
    @Override public void ensureConsistentMetadata() { }
    @Override public void ensureConsistentMetadata(Collection<KafkaBroker> b, Collection<ControllerServer> c) { }

    @Override
    public String clusterId() {
        try {
            return shared().describeCluster().clusterId().get(10, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void createTopic(String name, int partitions, short replicas, Map<String, String> props) throws InterruptedException {
        short r = LAUNCHER != null ? replicas : (short) Math.min(replicas, ExternalClusterExtension.BROKERS);
        var made = shared().createTopics(List.of(new org.apache.kafka.clients.admin.NewTopic(name, partitions, r).configs(props))).all();
        try {
            made.get(30, TimeUnit.SECONDS);
        } catch (Exception e) {
            if (!(e.getCause() instanceof org.apache.kafka.common.errors.TopicExistsException)) throw new AssertionError("creating " + name, e);
        }
        waitTopicCreation(name, partitions);
    }

    @Override
    public void createTopicWithAssignment(String name, Map<Integer, List<Integer>> replicas) throws InterruptedException {
        Map<Integer, List<Integer>> r = new LinkedHashMap<>();
        replicas.forEach((p, ids) -> r.put(p, LAUNCHER != null ? ids : ids.stream().map(i -> i % ExternalClusterExtension.BROKERS).distinct().toList()));
        var made = shared().createTopics(List.of(new org.apache.kafka.clients.admin.NewTopic(name, r))).all();
        try {
            made.get(30, TimeUnit.SECONDS);
        } catch (Exception e) {
            if (!(e.getCause() instanceof org.apache.kafka.common.errors.TopicExistsException)) throw new AssertionError("creating " + name, e);
        }
        waitTopicCreation(name, r.size());
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        if (partitions <= 0) throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
        // With a broker stopped, partitions may have no leader for good.
        boolean all = brokers().values().stream().noneMatch(KafkaBroker::isShutdown);
        await(() -> describe(topic).map(t -> t.partitions().size() == partitions
            && (!all || t.partitions().stream().allMatch(q -> q.leader() != null && q.leader().id() >= 0))).orElse(false), topic + " did not appear");
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        await(() -> describe(topic).isEmpty(), topic + " did not go");
    }

    private static void await(java.util.function.BooleanSupplier done, String what) throws InterruptedException {
        long end = System.currentTimeMillis() + 30000;
        while (!done.getAsBoolean()) {
            if (System.currentTimeMillis() > end) throw new AssertionError(what);
            Thread.sleep(20);
        }
    }
}
