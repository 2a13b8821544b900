package outside;

import com.yammer.metrics.core.Gauge;
import com.yammer.metrics.core.MetricName;

import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/** Counters of logins as tests read them from a broker's memory, read from the metrics page of the node. */
final class NodeMetrics {
    private static final List<String> NAMES = List.of("successful-authentication-total", "failed-authentication-total",
        "successful-reauthentication-total", "failed-reauthentication-total", "expired-connections-killed-count");
    private static final MetricName EXPIRED = new MetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount");

    private NodeMetrics() { }

    /** The page is empty if the node has none: Apache Kafka as a program offers its metrics to other tools. */
    static Metrics of(Supplier<Optional<String>> page) {
        Metrics metrics = new Metrics();
        for (String name : NAMES) {
            org.apache.kafka.common.metrics.Gauge<Double> gauge = (config, now) -> sum(page.get(), name);
            metrics.addMetric(metrics.metricName(name, "socket-server-metrics"), null, gauge);
        }
        return metrics;
    }

    static void registerExpired(Collection<Supplier<Optional<String>>> pages) {
        KafkaYammerMetrics.defaultRegistry().removeMetric(EXPIRED);
        KafkaYammerMetrics.defaultRegistry().newGauge(EXPIRED, new Gauge<Double>() {
            @Override
            public Double value() {
                return pages.stream().mapToDouble(page -> sum(page.get(), "expired-connections-killed-count")).sum();
            }
        });
    }

    /** The sum over all listeners. */
    private static double sum(Optional<String> page, String name) {
        if (page.isEmpty()) return 0;
        String prefix = "kafka_server_socket_server_metrics_" + name.replace('-', '_') + "{";
        try (InputStream in = URI.create(page.get()).toURL().openStream()) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().filter(line -> line.startsWith(prefix))
                .mapToDouble(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1))).sum();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
