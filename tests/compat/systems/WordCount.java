import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Kafka Streams counts words, with a repartition topic and a changelog; the counts must be exact. */
public class WordCount {
  static final int LINES = 3000;
  static final int WORDS = 50;

  public static void main(String[] args) throws Exception {
    String bootstrap = args[0], guarantee = args[1], stateFolder = args[2];
    String app = "word-count-" + guarantee.replace('_', '-');
    fill(bootstrap, app);
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(app + "-in", Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.as("counts"))
        .toStream()
        .to(app + "-out", Produced.with(Serdes.String(), Serdes.Long()));
    Properties settings = to(bootstrap);
    settings.put("application.id", app);
    settings.put("processing.guarantee", guarantee);
    settings.put("state.dir", stateFolder);
    settings.put("commit.interval.ms", 200);
    settings.put("auto.offset.reset", "earliest");
    settings.put("num.stream.threads", 2);
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    streams.start();
    Map<String, Long> counts = read(bootstrap, app);
    streams.close(Duration.ofSeconds(30));
    for (int word = 0; word < WORDS; word++) {
      Long count = counts.get("word" + word);
      if (count == null || count != LINES / WORDS) {
        throw new AssertionError("word" + word + " was counted " + count + " times");
      }
    }
    System.out.println(guarantee + ": " + counts.get("all") + " lines, every word counted once");
    System.exit(0);
  }

  static Properties to(String bootstrap) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", bootstrap);
    return settings;
  }

  static void fill(String bootstrap, String app) throws Exception {
    try (Admin admin = Admin.create(to(bootstrap))) {
      admin.createTopics(List.of(
          new NewTopic(app + "-in", 3, (short) 1), new NewTopic(app + "-out", 3, (short) 1))).all().get();
    }
    try (KafkaProducer<String, String> producer =
        new KafkaProducer<>(to(bootstrap), new StringSerializer(), new StringSerializer())) {
      for (int i = 0; i < LINES; i++) {
        producer.send(new ProducerRecord<>(app + "-in", "k" + i, "word" + (i % WORDS) + " all"));
      }
    }
  }

  /** The latest count of each word, once the counts add up, or after a minute and a half. */
  static Map<String, Long> read(String bootstrap, String app) {
    Properties settings = to(bootstrap);
    settings.put("group.id", app + "-check");
    settings.put("auto.offset.reset", "earliest");
    settings.put("isolation.level", "read_committed");
    Map<String, Long> latest = new HashMap<>();
    long deadline = System.currentTimeMillis() + 90_000;
    try (KafkaConsumer<String, Long> consumer =
        new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
      consumer.subscribe(List.of(app + "-out"));
      while (System.currentTimeMillis() < deadline
          && latest.values().stream().mapToLong(Long::longValue).sum() < 2L * LINES) {
        consumer.poll(Duration.ofMillis(200)).forEach(record -> latest.put(record.key(), record.value()));
      }
    }
    return latest;
  }
}
