package kafka.server;

import com.typesafe.scalalogging.Logger;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.MockFaultHandler;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;

import outside.Credentials;
import outside.NamedListeners;
import outside.RemoteAuthorizer;
import outside.Shells;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Our own stand-in, put before Kafka's class of the same name on the class path: the brokers of a test are a cluster of
 * -Doutside.launcher, and what the test asks of a broker's memory is asked over an Admin client of a super user.
 */
@Tag("integration")
public abstract class QuorumTestHarness implements kafka.utils.Logging {
    private final MockFaultHandler faultHandler = new MockFaultHandler("quorumTestHarnessFaultHandler");
    private final QuorumTestHarnessFaultHandlerFactory faultHandlerFactory = new QuorumTestHarnessFaultHandlerFactory(faultHandler);
    private String logIdent = "";
    private TestInfo testInfo;
    private NamedListeners cluster;
    private Shells shells;
    private Admin admin;
    private ControllerServer controllerServer;

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return Stream.of(Arguments.of("classic"), Arguments.of("consumer"));
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return Stream.of(Arguments.of("classic"));
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return Stream.of(Arguments.of("consumer"));
    }

    public static void verifyNoUnexpectedThreads(String context) { }

    @BeforeAll public static void setUpClass() { }
    @AfterAll public static void tearDownClass() { }

    @Override public String logIdent() { return logIdent; }
    @Override public void logIdent_$eq(String ident) { logIdent = ident; }
    @Override public Logger logger() { return Logger.apply(org.slf4j.LoggerFactory.getLogger(getClass())); }

    public SecurityProtocol controllerListenerSecurityProtocol() { return SecurityProtocol.PLAINTEXT; }
    public scala.collection.Seq<SecurityProtocol> extraControllerSecurityProtocols() { return seq(List.of()); }
    public scala.collection.Seq<Properties> kraftControllerConfigs(TestInfo info) { return seq(List.of(new Properties())); }
    public MetadataVersion metadataVersion() { return MetadataVersion.latestTesting(); }
    public QuorumTestHarnessFaultHandlerFactory faultHandlerFactory() { return faultHandlerFactory; }
    public MockFaultHandler faultHandler() { return faultHandler; }
    public void addFormatterSettings(org.apache.kafka.metadata.storage.Formatter formatter) { }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return kafka.utils.TestInfoUtils.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        return maybeGroupProtocolSpecified().get();
    }

    public ControllerServer controllerServer() {
        return controllerServer;
    }

    public scala.collection.Seq<ControllerServer> controllerServers() {
        return seq(List.of(controllerServer));
    }

    @BeforeEach
    public void setUp(TestInfo info) {
        testInfo = info;
        List<Properties> properties = CollectionConverters.asJava(kraftControllerConfigs(info));
        cluster = new NamedListeners(properties.get(0), controllerListenerSecurityProtocol());
        cluster.addScram(Credentials.scramArguments(this::addFormatterSettings));
        Authorizer authorizer = new RemoteAuthorizer(this::superUser);
        shells = new Shells(this::superUser, () -> authorizer);
        controllerServer = shells.controller(cluster.controllerConfig(), name -> cluster.controllerPort());
    }

    @AfterEach
    public void tearDown() {
        if (admin != null) admin.close(java.time.Duration.ofSeconds(1));
        admin = null;
        if (cluster != null) cluster.stop();
        cluster = null;
    }

    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        int id = config.brokerId();
        cluster.add(config);
        BrokerServer broker = shells.broker(config, name -> cluster.port(id, name), () -> cluster.metricsPage(id), this::startCluster, () -> { });
        if (startup) broker.startup();
        return broker;
    }

    public Time createBroker$default$2() { return Time.SYSTEM; }
    public boolean createBroker$default$3() { return true; }
    public Option<String> createBroker$default$4() { return Option.empty(); }
    public void shutdownKRaftController() { }

    /** The first broker that starts brings up all of them, because they form one cluster. */
    private void startCluster() {
        if (this instanceof kafka.integration.KafkaServerTestHarness harness) {
            for (KafkaConfig config : CollectionConverters.asJava(harness.configs())) cluster.add(config);
        }
        cluster.start();
        cluster.registerMetrics();
        shells.waitForBrokers(cluster.size());
    }

    /** An Admin client over the listener between brokers, with the credentials of a broker. */
    private synchronized Admin superUser() {
        if (admin == null) admin = Admin.create(cluster.brokerClient());
        return admin;
    }

    private static <T> scala.collection.Seq<T> seq(List<T> items) {
        return CollectionConverters.asScala(new ArrayList<>(items));
    }
}
