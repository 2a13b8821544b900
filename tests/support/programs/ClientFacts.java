import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TransactionAbortableException;
import org.apache.kafka.common.protocol.Errors;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;

/** What Java's clients know without a broker: configuration keys and their defaults, classes of errors, partitions of keys. */
public class ClientFacts {
    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "keys" -> keys();
            case "defaults" -> defaults();
            case "errors" -> errors();
            case "partitions" -> partitions(Integer.parseInt(arguments[1]));
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void keys() {
        ProducerConfig.configNames().forEach(name -> System.out.println("producer " + name));
        ConsumerConfig.configNames().forEach(name -> System.out.println("consumer " + name));
        AdminClientConfig.configNames().forEach(name -> System.out.println("admin " + name));
    }

    private static void defaults() {
        ProducerConfig.configDef().defaultValues()
            .forEach((name, value) -> System.out.println("producer " + name + " " + value));
        ConsumerConfig.configDef().defaultValues()
            .forEach((name, value) -> System.out.println("consumer " + name + " " + value));
    }

    private static void errors() {
        for (Errors error : Errors.values()) {
            System.out.println(error.code() + " " + kind(error.exception()));
        }
    }

    private static String kind(Exception exception) {
        if (exception instanceof RetriableException) return "retriable";
        if (exception instanceof TransactionAbortableException) return "abortable";
        if (exception instanceof ApplicationRecoverableException) return "application-recoverable";
        if (exception instanceof InvalidConfigurationException) return "invalid-configuration";
        return "other";
    }

    private static void partitions(int count) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            byte[] key = HexFormat.of().parseHex(line.strip());
            System.out.println(BuiltInPartitioner.partitionForKey(key, count));
        }
    }
}
