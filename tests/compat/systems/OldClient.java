import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a Java client of an older version does all day: administer, write transactions, read in a group. */
public class OldClient {
  static final int RECORDS = 100;

  public static void main(String[] args) throws Exception {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", args[0]);
    String topic = "old-" + args[1];
    try (AdminClient admin = AdminClient.create(settings)) {
      admin.createTopics(Collections.singletonList(new NewTopic(topic, 3, (short) 1))).all().get();
      write(settings, topic);
      int count = read(settings, topic);
      if (count != 3 * RECORDS) {
        throw new AssertionError("read " + count + " records of " + 3 * RECORDS);
      }
      ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
      admin.describeConfigs(Collections.singleton(resource)).all().get();
      admin.listTopics().names().get();
      admin.listConsumerGroups().all().get();
      admin.describeConsumerGroups(Collections.singleton("g-" + topic)).all().get();
      admin.listConsumerGroupOffsets("g-" + topic).partitionsToOffsetAndMetadata().get();
      admin.describeCluster().nodes().get();
      admin.deleteTopics(Collections.singleton(topic)).all().get();
      System.out.println("Java client " + args[1] + ": " + count + " committed records read");
    }
  }

  /** Four transactions, one of them aborted. */
  static void write(Map<String, Object> settings, String topic) {
    Map<String, Object> own = new HashMap<>(settings);
    own.put("transactional.id", "t-" + topic);
    own.put("compression.type", "lz4");
    try (KafkaProducer<String, String> producer =
        new KafkaProducer<>(own, new StringSerializer(), new StringSerializer())) {
      producer.initTransactions();
      for (int transaction = 0; transaction < 4; transaction++) {
        producer.beginTransaction();
        for (int i = 0; i < RECORDS; i++) {
          producer.send(new ProducerRecord<>(topic, "k" + i, "v" + i));
        }
        if (transaction == 2) {
          producer.abortTransaction();
        } else {
          producer.commitTransaction();
        }
      }
    }
  }

  static int read(Map<String, Object> settings, String topic) {
    Map<String, Object> own = new HashMap<>(settings);
    own.put("group.id", "g-" + topic);
    own.put("auto.offset.reset", "earliest");
    own.put("isolation.level", "read_committed");
    int count = 0;
    long deadline = System.currentTimeMillis() + 60_000;
    try (KafkaConsumer<String, String> consumer =
        new KafkaConsumer<>(own, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(Collections.singletonList(topic));
      while (count < 3 * RECORDS && System.currentTimeMillis() < deadline) {
        count += consumer.poll(Duration.ofMillis(200)).count();
      }
      consumer.commitSync();
    }
    return count;
  }
}
