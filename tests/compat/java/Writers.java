import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** Transactional producers by name, one step of a transaction a call. */
final class Writers {
    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> open = new HashMap<>();

    Writers(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    Object answer(String op, JsonNode args) {
        String name = args.get("name").asText();
        KafkaProducer<String, String> writer = open.get(name);
        switch (op) {
            case "txn.open":
                open.put(name, start(args.get("id").asText()));
                return null;
            case "txn.begin":
                writer.beginTransaction();
                return null;
            case "txn.send":
                writer.send(new ProducerRecord<>(args.get("topic").asText(), args.get("partition").asInt(), null,
                    args.get("value").asText()));
                writer.flush();
                return null;
            case "txn.offsets":
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                args.get("offsets").fields().forEachRemaining(each -> offsets.put(
                    new TopicPartition(args.get("topic").asText(), Integer.parseInt(each.getKey())),
                    new OffsetAndMetadata(each.getValue().asLong())));
                writer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(args.get("group").asText()));
                return null;
            case "txn.commit":
                writer.commitTransaction();
                return null;
            case "txn.abort":
                writer.abortTransaction();
                return null;
            case "txn.close":
                open.remove(name).close(Duration.ZERO);
                return null;
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private KafkaProducer<String, String> start(String id) {
        // A slow machine may take longer over a test than the usual minute.
        Map<String, Object> settings =
            Map.of("bootstrap.servers", bootstrap, "transactional.id", id, "transaction.timeout.ms", 600_000);
        KafkaProducer<String, String> writer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        writer.initTransactions();
        return writer;
    }
}
