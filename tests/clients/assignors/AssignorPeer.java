// Java's own assignors and partitioner: reads cases as JSON from standard input, writes answers as JSON to standard output.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

public class AssignorPeer {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode input = JSON.readTree(System.in);
        ObjectNode output = JSON.createObjectNode();
        ArrayNode assignments = output.putArray("assignments");
        for (JsonNode test : input.get("assignments"))
            assignments.add(assign(test));
        ArrayNode hashes = output.putArray("keys");
        for (JsonNode test : input.get("keys")) {
            byte[] key = Base64.getDecoder().decode(test.get("key").asText());
            hashes.addArray().add(Utils.murmur2(key)).add(BuiltInPartitioner.partitionForKey(key, test.get("partitions").asInt()));
        }
        ArrayNode sent = output.putArray("protocol");
        for (JsonNode test : input.get("protocol"))
            sent.add(exchange(test));
        JSON.writeValue(System.out, output);
    }

    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    static ObjectNode assign(JsonNode test) {
        ObjectNode answer = JSON.createObjectNode();
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : test.get("members"))
            members.put(member.get("id").asText(), subscription(member));
        try {
            assignor(test.get("assignor").asText())
                .assign(cluster(test.get("topics")), new GroupSubscription(members))
                .groupAssignment()
                .forEach((member, assignment) -> answer.set(member, partitions(assignment.partitions())));
        } catch (RuntimeException error) {
            answer.removeAll();
            answer.put("", error.toString());
        }
        return answer;
    }

    /** What Java's member would send, what it reads from ours, and what its assignors remember for the next join. */
    static ObjectNode exchange(JsonNode test) {
        ObjectNode answer = JSON.createObjectNode();
        answer.put("subscription", text(ConsumerProtocol.serializeSubscription(subscription(test))));
        Subscription read = ConsumerProtocol.deserializeSubscription(bytes(test.get("our_subscription")));
        answer.set("read", partitions(read.ownedPartitions()));
        answer.put("generation", read.generationId().orElse(-1));
        answer.put("rack", read.rackId().orElse(null));
        answer.set("assigned", partitions(ConsumerProtocol.deserializeAssignment(bytes(test.get("our_assignment"))).partitions()));
        Assignment owned = new Assignment(topicPartitions(test.get("owned")));
        answer.put("assignment", text(ConsumerProtocol.serializeAssignment(owned)));
        for (String name : List.of("sticky", "cooperative-sticky")) {
            ConsumerPartitionAssignor assignor = assignor(name);
            assignor.onAssignment(owned, new ConsumerGroupMetadata("g", test.get("generation").asInt(), "m", Optional.empty()));
            answer.put(name, text(assignor.subscriptionUserData(Set.of())));
        }
        return answer;
    }

    static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        Subscription subscription = new Subscription(
            topics,
            bytes(member.get("user_data")),
            topicPartitions(member.get("owned")),
            member.get("generation").asInt(),
            Optional.ofNullable(member.get("rack").textValue()));
        subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").textValue()));
        return subscription;
    }

    static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                Node[] replicas = new Node[racks.size()];
                for (int i = 0; i < replicas.length; i++) {
                    String rack = racks.get(i).textValue();
                    replicas[i] = nodes.computeIfAbsent(String.valueOf(rack), key -> new Node(nodes.size(), "host", 9092, rack));
                }
                partitions.add(new PartitionInfo(topic.getKey(), number++, Node.noNode(), replicas, replicas));
            }
        });
        return new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
    }

    static List<TopicPartition> topicPartitions(JsonNode pairs) {
        List<TopicPartition> found = new ArrayList<>();
        pairs.forEach(pair -> found.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return found;
    }

    static ArrayNode partitions(List<TopicPartition> partitions) {
        ArrayNode array = JSON.createArrayNode();
        partitions.forEach(each -> array.addArray().add(each.topic()).add(each.partition()));
        return array;
    }

    static ByteBuffer bytes(JsonNode base64) {
        return base64 == null || base64.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(base64.asText()));
    }

    static String text(ByteBuffer buffer) {
        return Base64.getEncoder().encodeToString(Utils.toArray(buffer));
    }
}
