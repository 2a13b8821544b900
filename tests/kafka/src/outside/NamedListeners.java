package outside;

import kafka.server.KafkaConfig;

import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;

/** A cluster of -Doutside.launcher whose brokers have the listeners that a test names; the launcher chooses the ports. */
public final class NamedListeners {
    /** What belongs to the place of a node, and is the launcher's to say. */
    private static final Set<String> PLACES = Set.of("listeners", "advertised.listeners", "listener.security.protocol.map",
        "node.id", "broker.id", "process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers",
        "controller.listener.names", "log.dir", "log.dirs", "metadata.log.dir");

    private final Map<String, String> controllerSettings = new LinkedHashMap<>();
    private final SecurityProtocol controllerProtocol;
    private final Map<Integer, KafkaConfig> brokers = new TreeMap<>();
    private final Map<Integer, Map<String, Integer>> ports = new LinkedHashMap<>();
    private final List<String> scramArguments = new ArrayList<>();
    private Path dir;

    public NamedListeners(Properties controllerProperties, SecurityProtocol controllerProtocol) {
        // As Kafka's own class does: the value that its tests give to brokers.
        controllerSettings.put("log.segment.delete.delay.ms", "1000");
        controllerProperties.forEach((key, value) -> controllerSettings.put(key.toString(), value.toString()));
        this.controllerProtocol = controllerProtocol;
    }

    public KafkaConfig controllerConfig() {
        Properties p = new Properties();
        controllerSettings.forEach(p::put);
        p.put("process.roles", "controller");
        p.put("node.id", "3000");
        p.put("controller.quorum.voters", "3000@127.0.0.1:1");
        p.put("controller.listener.names", "CONTROLLER");
        p.put("listeners", "CONTROLLER://127.0.0.1:1");
        p.put("listener.security.protocol.map", "CONTROLLER:" + controllerProtocol);
        return new KafkaConfig(p, false);
    }

    public void add(KafkaConfig config) {
        brokers.put(config.brokerId(), config);
    }

    /** Credentials that exist before the first broker starts, as `storage format --add-scram` takes them. */
    public void addScram(List<String> arguments) {
        scramArguments.addAll(arguments);
    }

    public void start() {
        if (dir != null) return;
        try {
            dir = Files.createTempDirectory("outside-cluster");
            KafkaConfig first = brokers.values().iterator().next();
            Files.writeString(dir.resolve("listeners"), listeners(first));
            Path properties = dir.resolve("server.properties");
            write(properties, Map.of());
            for (Map.Entry<Integer, KafkaConfig> e : brokers.entrySet()) {
                Map<String, String> own = new TreeMap<>();
                e.getValue().originals().forEach((key, value) -> own.put(key, text(value)));
                for (ListenerName name : e.getValue().effectiveListenerSecurityProtocolMap().keySet()) own.putAll(logins(e.getValue(), name));
                new StoreFiles(dir).convert(own, Integer.toString(e.getKey()));
                if (brokers.size() == 1) own.putAll(controllerSettings);
                write(dir.resolve("server.properties." + e.getKey()), own);
            }
            write(dir.resolve("server.properties.3000"), controllerSettings);
            if (!scramArguments.isEmpty()) Files.writeString(dir.resolve("scram"), String.join("\n", scramArguments));
            launch("start", dir.toString(), Integer.toString(brokers.size()), properties.toString());
            for (int id : brokers.keySet()) ports.put(id, readPorts(dir.resolve(id + ".ports")));
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The address of a broker's metrics page, if the broker has one. */
    public Optional<String> metricsPage(int broker) {
        try {
            Path file = dir.resolve(broker + ".metrics");
            return Files.exists(file) ? Optional.of(Files.readString(file).trim()) : Optional.empty();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    public void registerMetrics() {
        List<Supplier<Optional<String>>> pages = new ArrayList<>();
        for (int id : brokers.keySet()) pages.add(() -> metricsPage(id));
        NodeMetrics.registerExpired(pages);
    }

    /** The settings of a client with the credentials of a broker, which is a super user wherever there is an authorizer. */
    public Map<String, Object> brokerClient() {
        KafkaConfig config = brokers.values().iterator().next();
        Map<String, Object> settings = new LinkedHashMap<>();
        config.originals().forEach((key, value) -> {
            boolean isClients = key.startsWith("ssl.") && !key.equals("ssl.client.auth");
            if (isClients || key.equals("sasl.client.callback.handler.class")) settings.put(key, value);
        });
        settings.put("security.protocol", config.interBrokerSecurityProtocol().name);
        if (config.interBrokerSecurityProtocol().name.startsWith("SASL_")) {
            String mechanism = config.saslMechanismInterBrokerProtocol();
            settings.put("sasl.mechanism", mechanism);
            String module = LoginModules.module(mechanism);
            if (module != null) settings.put("sasl.jaas.config", module);
            if (mechanism.equals("GSSAPI")) settings.put("sasl.kerberos.service.name", "kafka");
        }
        settings.put("bootstrap.servers", interBrokerBootstrap());
        return settings;
    }

    private static Map<String, String> logins(KafkaConfig config, ListenerName name) {
        SecurityProtocol protocol = config.effectiveListenerSecurityProtocolMap().get(name);
        if (!protocol.name.startsWith("SASL_")) return Map.of();
        Object mechanisms = config.originals().getOrDefault("sasl.enabled.mechanisms", "GSSAPI");
        return LoginModules.settings(name.value(), List.of(text(mechanisms).split(",")));
    }

    public void stop() {
        if (dir != null) launch("stop", dir.toString());
        dir = null;
    }

    public int size() {
        return brokers.size();
    }

    public int port(int broker, ListenerName name) {
        return ports.get(broker).get(name.value());
    }

    public int controllerPort() {
        try {
            String address = Files.readString(dir.resolve("controller"));
            return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    public String interBrokerBootstrap() {
        List<String> places = new ArrayList<>();
        brokers.forEach((id, config) -> places.add("localhost:" + port(id, config.interBrokerListenerName())));
        return String.join(",", places);
    }

    /** One line for each listener: its name and its protocol. */
    private String listeners(KafkaConfig config) {
        StringBuilder lines = new StringBuilder();
        config.effectiveListenerSecurityProtocolMap().forEach((name, protocol) -> lines.append(name.value()).append(' ').append(protocol).append('\n'));
        return lines.toString();
    }

    private static String text(Object value) {
        if (value instanceof org.apache.kafka.common.config.types.Password password) return password.value();
        if (value instanceof List<?> list) return String.join(",", list.stream().map(Object::toString).toList());
        return value instanceof Class<?> c ? c.getName() : String.valueOf(value);
    }

    private static void write(Path file, Map<String, String> settings) throws IOException {
        StringBuilder lines = new StringBuilder();
        settings.forEach((key, value) -> {
            if (!PLACES.contains(key)) lines.append(key).append('=').append(value.replace("\\", "\\\\").replace("\n", "\\n")).append('\n');
        });
        Files.writeString(file, lines);
    }

    private static Map<String, Integer> readPorts(Path file) throws IOException {
        Map<String, Integer> ports = new LinkedHashMap<>();
        for (String line : Files.readAllLines(file)) ports.put(line.split(" ")[0], Integer.parseInt(line.split(" ")[1]));
        return ports;
    }

    private static String launch(String... args) {
        try {
            List<String> cmd = new ArrayList<>(List.of(ExternalCluster.LAUNCHER));
            cmd.addAll(List.of(args));
            ProcessBuilder builder = new ProcessBuilder(cmd).redirectError(ProcessBuilder.Redirect.INHERIT);
            String kerberos = System.getProperty("java.security.krb5.conf");
            if (kerberos != null) builder.environment().putAll(Map.of("KRB5_CONFIG", kerberos, "KRB5RCACHETYPE", "none"));
            Process p = builder.start();
            p.getOutputStream().close();
            String out = new String(p.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
            if (p.waitFor() != 0) throw new IllegalStateException(cmd + " ended with " + p.exitValue() + ": " + out);
            return out;
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
