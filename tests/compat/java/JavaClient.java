import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The calls of tests/compat/clients/face.py, with Apache Kafka's own client at its defaults: newest versions, idempotent. */
final class JavaClient {
    private static final long WAIT_MS = 60_000;

    /** Settings of every client, for listeners that ask for TLS and logins: COMPAT_SECURITY_JAVA, as JSON. */
    private static final Map<String, Object> SECURITY = security();

    private final String bootstrap;
    private final Admin admin;
    private final Map<String, Object> groupSettings;
    private final Map<String, Member> members = new HashMap<>();

    JavaClient(String bootstrap, String groupProtocol) {
        this.bootstrap = bootstrap;
        this.groupSettings = new HashMap<>(Map.of("group.protocol", groupProtocol));
        if (groupProtocol.equals("classic")) { // else the broker says how often
            groupSettings.putAll(Map.of("heartbeat.interval.ms", 500, "session.timeout.ms", 45_000));
        }
        this.admin = Admin.create(secured(Map.of("bootstrap.servers", bootstrap)));
    }

    private static Map<String, Object> security() {
        String text = System.getenv().getOrDefault("COMPAT_SECURITY_JAVA", "{}");
        try {
            return Compat.JSON.readValue(text, new TypeReference<Map<String, Object>>() { });
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("COMPAT_SECURITY_JAVA is no JSON object", error);
        }
    }

    private static Map<String, Object> secured(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(SECURITY);
        all.putAll(settings);
        return all;
    }

    Object answer(String op, JsonNode args) throws Exception {
        String topic = args.path("topic").asText();
        String group = args.path("group").asText();
        String member = args.path("member").asText();
        switch (op) {
            case "produce": return produce(topic, args.get("records"), args.get("codec").asText());
            case "consume": return consume(topic, args.get("ranges"));
            case "offsets_for_time": return offsets(topic, OffsetSpec.forTimestamp(args.get("timestamp_ms").asLong()));
            case "bounds": return bounds(topic);
            case "join":
                members.put(member, new Member(group, topic));
                return null;
            case "assigned": return members.get(member).assigned();
            case "taken": return members.get(member).taken();
            case "commit": return members.get(member).call(members.get(member)::commit);
            case "leave": return members.remove(member).leave();
            case "committed": return committed(group, topic);
            case "create_topic": return createTopic(topic, args);
            case "topics": return get(admin.listTopics(new ListTopicsOptions().listInternal(true)).names());
            case "describe_topic": return describeTopic(topic);
            case "add_partitions":
                return get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(args.get("count").asInt()))).all());
            case "delete_topic": return get(admin.deleteTopics(List.of(topic)).all());
            case "topic_config": return topicConfig(topic);
            case "alter_topic_config": return alterTopicConfig(topic, strings(args.get("config")));
            case "cluster": return cluster();
            case "groups": return groups();
            case "describe_group": return describeGroup(group);
            case "delete_group": return get(admin.deleteConsumerGroups(List.of(group)).all());
            case "delete_records": return deleteRecords(topic, args.get("before"));
            default: throw new IllegalArgumentException("no such call: " + op);
        }
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(WAIT_MS, TimeUnit.MILLISECONDS);
    }

    private List<Long> produce(String topic, JsonNode records, String codec) throws Exception {
        Map<String, Object> settings = secured(Map.of("bootstrap.servers", bootstrap, "compression.type", codec,
            "acks", "all", "max.request.size", 10_000_000, "batch.size", 1_000_000, "delivery.timeout.ms", 50_000));
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode each : records) {
                List<Header> headers = new ArrayList<>();
                each.get("headers").forEach(pair -> headers.add(new RecordHeader(pair.get(0).asText(), bytes(pair.get(1)))));
                sent.add(producer.send(new ProducerRecord<>(topic, each.get("partition").asInt(),
                    each.get("timestamp_ms").asLong(), bytes(each.get("key")), bytes(each.get("value")), headers)));
            }
            List<Long> offsets = new ArrayList<>();
            for (Future<RecordMetadata> each : sent) {
                offsets.add(get(each).offset());
            }
            return offsets;
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> settings = secured(Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", false,
            "auto.offset.reset", "earliest"));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private List<Object> consume(String topic, JsonNode ranges) {
        Map<Integer, Long> ends = new HashMap<>();
        List<Object> found = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            List<TopicPartition> places = new ArrayList<>();
            for (JsonNode each : ranges) {
                places.add(new TopicPartition(topic, each.get(0).asInt()));
                ends.put(each.get(0).asInt(), each.get(2).asLong());
            }
            consumer.assign(places);
            for (JsonNode each : ranges) {
                consumer.seek(new TopicPartition(topic, each.get(0).asInt()), each.get(1).asLong());
            }
            long deadline = System.currentTimeMillis() + WAIT_MS;
            while (!ends.isEmpty()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("still waiting for " + ends);
                }
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(200))) {
                    long end = ends.getOrDefault(each.partition(), -1L);
                    if (each.offset() < end) {
                        found.add(toJson(each));
                    }
                    if (each.offset() + 1 >= end) {
                        ends.remove(each.partition());
                    }
                }
            }
        }
        return found;
    }

    private Map<Integer, Long> offsets(String topic, OffsetSpec spec) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        for (int at : describeTopic(topic).keySet()) {
            wanted.put(new TopicPartition(topic, at), spec);
        }
        Map<Integer, Long> found = new HashMap<>();
        for (Map.Entry<TopicPartition, ListOffsetsResultInfo> each : get(admin.listOffsets(wanted).all()).entrySet()) {
            found.put(each.getKey().partition(), each.getValue().offset());
        }
        return found;
    }

    private Map<Integer, List<Long>> bounds(String topic) throws Exception {
        Map<Integer, Long> starts = offsets(topic, OffsetSpec.earliest());
        Map<Integer, Long> ends = offsets(topic, OffsetSpec.latest());
        Map<Integer, List<Long>> both = new HashMap<>();
        starts.forEach((at, start) -> both.put(at, List.of(start, ends.get(at))));
        return both;
    }

    private Map<Integer, Long> committed(String group, String topic) throws Exception {
        Map<Integer, Long> offsets = new HashMap<>();
        get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).forEach((place, each) -> {
            if (each != null && place.topic().equals(topic)) {
                offsets.put(place.partition(), each.offset());
            }
        });
        return offsets;
    }

    private Object createTopic(String topic, JsonNode args) throws Exception {
        short replication = (short) args.get("replication").asInt();
        NewTopic wanted = new NewTopic(topic, args.get("partitions").asInt(), replication);
        return get(admin.createTopics(List.of(wanted.configs(strings(args.get("config"))))).all());
    }

    private Map<Integer, Object> describeTopic(String topic) throws Exception {
        Map<Integer, Object> places = new HashMap<>();
        get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().forEach(each ->
            places.put(each.partition(), Map.of("leader", each.leader() == null ? -1 : each.leader().id(),
                "replicas", ids(each.replicas()), "isr", ids(each.isr()))));
        return places;
    }

    private static List<Integer> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private Map<String, String> topicConfig(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config found = get(admin.describeConfigs(List.of(resource)).all()).get(resource);
        Map<String, String> values = new HashMap<>();
        found.entries().forEach(each -> values.put(each.name(), each.value()));
        return values;
    }

    private Object alterTopicConfig(String topic, Map<String, String> config) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        config.forEach((name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return get(admin.incrementalAlterConfigs(Map.of(resource, changes)).all());
    }

    private Map<String, Object> cluster() throws Exception {
        List<Object> brokers = new ArrayList<>();
        get(admin.describeCluster().nodes()).forEach(each -> brokers.add(List.of(each.id(), each.host(), each.port())));
        return Map.of("controller", get(admin.describeCluster().controller()).id(), "brokers", brokers);
    }

    private List<String> groups() throws Exception {
        return get(admin.listGroups().all()).stream().map(each -> each.groupId()).toList();
    }

    private Map<String, Object> describeGroup(String group) throws Exception {
        var found = get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
        return Map.of("state", found.groupState().toString(), "members", found.members().size());
    }

    private Object deleteRecords(String topic, JsonNode before) throws Exception {
        Map<TopicPartition, RecordsToDelete> wanted = new HashMap<>();
        before.forEach(each -> wanted.put(new TopicPartition(topic, each.get(0).asInt()),
            RecordsToDelete.beforeOffset(each.get(1).asLong())));
        return get(admin.deleteRecords(wanted).all());
    }

    private static Map<String, String> strings(JsonNode object) {
        Map<String, String> values = new HashMap<>();
        object.properties().forEach(each -> values.put(each.getKey(), each.getValue().asText()));
        return values;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static Map<String, Object> toJson(ConsumerRecord<byte[], byte[]> each) {
        List<Object> headers = new ArrayList<>();
        for (Header header : each.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("partition", each.partition());
        answer.put("offset", each.offset());
        answer.put("timestamp_ms", each.timestamp());
        answer.put("key", text(each.key()));
        answer.put("value", text(each.value()));
        answer.put("headers", headers);
        return answer;
    }

    /** A member on a thread of its own; calls from outside wait in a queue between polls. */
    private final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final List<Object> taken = Collections.synchronizedList(new ArrayList<>());
        private final Set<Integer> owned = Collections.synchronizedSet(new TreeSet<>());
        private final BlockingQueue<Runnable> calls = new LinkedBlockingQueue<>();
        private volatile boolean isLeaving;

        Member(String group, String topic) {
            Map<String, Object> settings = new HashMap<>(groupSettings);
            settings.put("group.id", group);
            consumer = consumer(settings);
            consumer.subscribe(List.of(topic), this);
            Thread thread = new Thread(this::run, "member of " + group);
            thread.setDaemon(true);
            thread.start();
        }

        private void run() {
            while (!isLeaving) {
                consumer.poll(Duration.ofMillis(50)).forEach(each -> taken.add(toJson(each)));
                for (Runnable call = calls.poll(); call != null; call = calls.poll()) {
                    call.run();
                }
            }
        }

        Object call(Runnable work) throws Exception {
            CompletableFuture<Object> answer = new CompletableFuture<>();
            calls.add(() -> {
                try {
                    work.run();
                    answer.complete(null);
                } catch (RuntimeException error) {
                    answer.completeExceptionally(error);
                }
            });
            return get(answer);
        }

        List<Integer> assigned() {
            synchronized (owned) {
                return new ArrayList<>(owned);
            }
        }

        List<Object> taken() {
            synchronized (taken) {
                return new ArrayList<>(taken);
            }
        }

        void commit() {
            consumer.commitSync();
        }

        Object leave() throws Exception {
            return call(() -> {
                isLeaving = true;
                consumer.close();
            });
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            places.forEach(place -> owned.add(place.partition()));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            places.forEach(place -> owned.remove(place.partition()));
        }
    }
}
