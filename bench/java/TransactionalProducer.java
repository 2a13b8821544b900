import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/**
 * Writes in transactions of a given length: BOOTSTRAP TOPIC ID RECORDS SIZE RATE TRANSACTION_MS SETTING=VALUE...
 * A rate of 0 is as fast as can be. Prints records, milliseconds, transactions, and the middle and the 99th percentile
 * of the milliseconds that a commit takes, with all that was not sent before.
 */
public class TransactionalProducer {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        int records = Integer.parseInt(arguments[3]), rate = Integer.parseInt(arguments[5]);
        long transactionNanos = Long.parseLong(arguments[6]) * 1_000_000;
        byte[] payload = new byte[Integer.parseInt(arguments[4])];
        new Random(7).nextBytes(payload);
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", arguments[0], "transactional.id", arguments[2]));
        for (String pair : Arrays.asList(arguments).subList(7, arguments.length)) {
            settings.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        long[] commits = new long[records + 1];
        int transactions = 0, sent = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            long start = System.nanoTime();
            while (sent < records) {
                long end = System.nanoTime() + transactionNanos;
                producer.beginTransaction();
                do {
                    if (rate > 0) {
                        long ahead = start + sent * 1_000_000_000L / rate - System.nanoTime();
                        if (ahead > 0) {
                            java.util.concurrent.locks.LockSupport.parkNanos(ahead);
                        }
                    }
                    producer.send(new ProducerRecord<>(topic, payload));
                    sent++;
                } while (sent < records && System.nanoTime() < end);
                long before = System.nanoTime();
                producer.commitTransaction();
                commits[transactions++] = System.nanoTime() - before;
            }
            double milliseconds = (System.nanoTime() - start) / 1e6;
            Arrays.sort(commits, 0, transactions);
            System.out.println(sent + " " + milliseconds + " " + transactions
                + " " + commits[transactions / 2] / 1e6 + " " + commits[Math.min(transactions - 1, transactions * 99 / 100)] / 1e6);
        }
    }
}
