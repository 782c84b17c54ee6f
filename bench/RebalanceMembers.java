import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java consumers on threads of their own, for bench/rebalances.py. Usage: RebalanceMembers TOPIC NAME=VALUE...
 * First there is one in a group of its own, so that the JVM has loaded what it needs before anything is measured.
 * Reads `join`, `leave N` and `close`; prints `N` with its partitions whenever they change, and `N gone`.
 */
public final class RebalanceMembers implements Runnable {
    private final int number;
    private final String topic;
    private final Properties settings;
    private volatile boolean leaves;

    private RebalanceMembers(int number, String topic, Properties settings) {
        this.number = number;
        this.topic = topic;
        this.settings = settings;
    }

    @Override
    public void run() {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(topic));
            TreeSet<Integer> told = null;
            while (!leaves) {
                consumer.poll(Duration.ofMillis(20));
                TreeSet<Integer> owned = consumer.assignment().stream().map(TopicPartition::partition)
                    .collect(Collectors.toCollection(TreeSet::new));
                if (!owned.equals(told)) {
                    tell(owned.stream().map(String::valueOf).collect(Collectors.joining(" ")));
                    told = owned;
                }
            }
            tell("gone");
        }
    }

    private static void warmUp(String topic, Properties settings) {
        Properties own = new Properties();
        own.putAll(settings);
        own.put("group.id", settings.get("group.id") + " warm-up");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(own, bytes, bytes)) {
            consumer.subscribe(List.of(topic));
            while (consumer.assignment().isEmpty()) {
                consumer.poll(Duration.ofMillis(20));
            }
        }
    }

    private void tell(String text) {
        System.out.println(number + " " + text);
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (int at = 1; at < arguments.length; at++) {
            String[] parts = arguments[at].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        warmUp(arguments[0], settings);
        List<RebalanceMembers> members = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        System.out.println("ready");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null && !line.equals("close"); line = orders.readLine()) {
            if (line.equals("join")) {
                members.add(new RebalanceMembers(members.size(), arguments[0], settings));
                threads.add(new Thread(members.get(members.size() - 1)));
                threads.get(threads.size() - 1).start();
            } else {
                members.get(Integer.parseInt(line.split(" ")[1])).leaves = true;
            }
        }
        members.forEach(member -> member.leaves = true);
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
