import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a newest Java client does with what is new: dead letters, offsets by topic id, errors in words. */
public class NewestClient {
  static final int RECORDS = 10;

  public static void main(String[] args) throws Exception {
    Map<String, Object> settings = Map.of("bootstrap.servers", args[0]);
    try (Admin admin = Admin.create(settings)) {
      prepare(admin);
      produce(settings);
      rejectOne(settings);
      letter(settings);
      copy(settings);
      long committed =
          admin.listConsumerGroupOffsets("copier").partitionsToOffsetAndMetadata().get().values().stream()
              .mapToLong(OffsetAndMetadata::offset)
              .sum();
      System.out.println("committed " + committed);
      admin.deleteConsumerGroups(List.of("copier")).all().get();
      try {
        admin.deleteConsumerGroups(List.of("nobody")).all().get();
      } catch (ExecutionException refused) {
        System.out.println("refused " + refused.getCause().getMessage());
      }
    }
  }

  static void prepare(Admin admin) throws Exception {
    FeatureUpdate.UpgradeType up = FeatureUpdate.UpgradeType.UPGRADE;
    Map<String, FeatureUpdate> levels =
        Map.of(
            "metadata.version", new FeatureUpdate((short) 31, up),
            "share.version", new FeatureUpdate((short) 2, up));
    admin.updateFeatures(levels, new UpdateFeaturesOptions()).all().get();
    NewTopic queue =
        new NewTopic("dlq.jobs", 1, (short) 1)
            .configs(Map.of("errors.deadletterqueue.group.enable", "true"));
    NewTopic jobs = new NewTopic("jobs", 2, (short) 1);
    admin.createTopics(List.of(jobs, new NewTopic("copies", 1, (short) 1), queue)).all().get();
    ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "workers");
    List<AlterConfigOp> changes =
        List.of(
            set("share.auto.offset.reset", "earliest"),
            set("errors.deadletterqueue.topic.name", "dlq.jobs"),
            set("errors.deadletterqueue.copy.record.enable", "true"));
    admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
  }

  static AlterConfigOp set(String name, String value) {
    return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
  }

  static void produce(Map<String, Object> settings) {
    try (KafkaProducer<String, String> producer =
        new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      for (int i = 0; i < RECORDS; i++) {
        producer.send(new ProducerRecord<>("jobs", i % 2, "k" + i, "v" + i));
      }
    }
  }

  static void rejectOne(Map<String, Object> settings) {
    Map<String, Object> own = new HashMap<>(settings);
    own.put("group.id", "workers");
    own.put("share.acknowledgement.mode", "explicit");
    int count = 0;
    try (KafkaShareConsumer<String, String> consumer =
        new KafkaShareConsumer<>(own, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("jobs"));
      while (count < RECORDS) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
          boolean bad = record.value().equals("v3");
          consumer.acknowledge(record, bad ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
          count++;
        }
        consumer.commitSync();
      }
    }
    System.out.println("taken " + count);
  }

  static void letter(Map<String, Object> settings) {
    try (KafkaConsumer<String, String> consumer =
        new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      TopicPartition queue = new TopicPartition("dlq.jobs", 0);
      consumer.assign(List.of(queue));
      consumer.seekToBeginning(List.of(queue));
      ConsumerRecord<String, String> letter = null;
      while (letter == null) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
          letter = record;
        }
      }
      StringBuilder told = new StringBuilder("letter " + letter.value());
      for (String name : List.of("topic", "partition", "offset", "group", "delivery.count", "message")) {
        byte[] value = letter.headers().lastHeader("__dlq.errors." + name).value();
        told.append("|").append(new String(value, StandardCharsets.UTF_8));
      }
      System.out.println(told);
    }
  }

  /** Consume, transform and produce exactly once, as a member of the newer protocol. */
  static void copy(Map<String, Object> settings) {
    Map<String, Object> reading = new HashMap<>(settings);
    reading.put("group.id", "copier");
    reading.put("group.protocol", "consumer");
    reading.put("auto.offset.reset", "earliest");
    reading.put("enable.auto.commit", "false");
    Map<String, Object> writing = new HashMap<>(settings);
    writing.put("transactional.id", "copier");
    try (KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
      producer.initTransactions();
      consumer.subscribe(List.of("jobs"));
      for (int count = 0; count < RECORDS; ) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
          producer.send(new ProducerRecord<>("copies", record.key(), record.value()));
          offsets.put(
              new TopicPartition(record.topic(), record.partition()),
              new OffsetAndMetadata(record.offset() + 1));
          count++;
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
      }
    }
  }
}
