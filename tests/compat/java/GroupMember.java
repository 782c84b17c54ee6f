import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The Java consumer as a member of tests/compat/mixed_groups: lines of JSON on stdout, the word to leave on stdin.
 * Usage: java GroupMember SETTINGS, as JSON; `more` are settings of the consumer.
 */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;

    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<Integer, Long> uncommitted = new HashMap<>();
    private volatile boolean isAskedToLeave;

    private GroupMember(JsonNode given) {
        topic = given.get("topic").asText();
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", given.get("bootstrap").asText(), "group.id", given.get("group").asText(),
            "client.id", given.get("client_id").asText(), "enable.auto.commit", false, "auto.offset.reset", "earliest",
            "fetch.max.wait.ms", 200, "max.poll.interval.ms", given.get("poll_interval_ms").asInt()));
        given.get("more").properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
        if (!"consumer".equals(settings.get("group.protocol"))) { // else the broker says how often
            settings.put("heartbeat.interval.ms", given.get("heartbeat_ms").asInt());
            settings.put("session.timeout.ms", given.get("session_ms").asInt());
        }
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        GroupMember member = new GroupMember(JSON.readTree(arguments[0]));
        Thread listener = new Thread(member::listen, "listener");
        listener.setDaemon(true);
        listener.start();
        member.run();
        System.exit(0);
    }

    private void listen() {
        try {
            System.in.read(); // `close`, or the end
        } catch (IOException error) {
            error.printStackTrace();
        }
        isAskedToLeave = true;
    }

    private void run() throws Exception {
        try (consumer) {
            consumer.subscribe(List.of(topic), this);
            while (!isAskedToLeave) {
                deliver(consumer.poll(Duration.ofMillis(100)));
                commit();
            }
        } catch (RuntimeException error) {
            tell("failed", Map.of("why", error.toString()));
            throw error;
        }
        tell("closed", Map.of());
    }

    private void deliver(Iterable<ConsumerRecord<byte[], byte[]>> records) {
        List<long[]> spans = new ArrayList<>();
        Map<Integer, long[]> last = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            String value = new String(each.value(), StandardCharsets.US_ASCII);
            if (!value.equals(Long.toString(each.offset()))) {
                tell("garbled", Map.of("why", value + " at offset " + each.offset() + " of partition " + each.partition()));
            }
            long[] span = last.get(each.partition());
            if (span == null || span[2] != each.offset()) {
                span = new long[] {each.partition(), each.offset(), each.offset()};
                last.put(each.partition(), span);
                spans.add(span);
            }
            span[2] = each.offset() + 1;
        }
        if (!spans.isEmpty()) {
            tell("records", Map.of("spans", spans));
            spans.forEach(span -> uncommitted.put((int) span[0], span[2]));
        }
    }

    private void commit() {
        if (uncommitted.isEmpty()) {
            return;
        }
        long began = System.currentTimeMillis();
        Map<TopicPartition, OffsetAndMetadata> places = new HashMap<>();
        List<long[]> offsets = new ArrayList<>();
        uncommitted.forEach((partition, offset) -> {
            places.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset));
            offsets.add(new long[] {partition, offset});
        });
        try {
            consumer.commitSync(places);
            tell("committed", Map.of("began", began, "offsets", offsets));
            uncommitted.clear();
        } catch (CommitFailedException | RebalanceInProgressException | RetriableException error) {
            tell("refused", Map.of("why", error.toString()));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        tell("assigned", Map.of("partitions", numbers(places)));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {
        commit();
        letGo("revoked", places);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> places) {
        letGo("lost", places);
    }

    private void letGo(String event, Collection<TopicPartition> places) {
        numbers(places).forEach(uncommitted::remove);
        tell(event, Map.of("partitions", numbers(places)));
    }

    private static List<Integer> numbers(Collection<TopicPartition> places) {
        return places.stream().map(TopicPartition::partition).sorted().toList();
    }

    private static void tell(String event, Map<String, Object> more) {
        Map<String, Object> line = new HashMap<>(more);
        line.put("at", System.currentTimeMillis());
        line.put("event", event);
        try {
            OUT.println(JSON.writeValueAsString(line));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        OUT.flush();
    }
}
