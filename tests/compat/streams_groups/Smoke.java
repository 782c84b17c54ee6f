import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.streams.tests.SmokeTestClient;
import org.apache.kafka.streams.tests.SmokeTestDriver;
import org.apache.kafka.streams.tests.SmokeTestUtil;

/** Apache Kafka's smoke test of Kafka Streams: its driver, or one instance of its application. */
public class Smoke {
  static final String APPLICATION = "SmokeTest";

  public static void main(String[] args) throws Exception {
    if (args[0].equals("drive")) {
      drive(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]), Integer.parseInt(args[4]),
          Integer.parseInt(args[5]), Boolean.parseBoolean(args[6]));
    } else {
      process(Path.of(args[1]), args[2]);
    }
  }

  /** Feeds the application for so many seconds, and judges what came out; ends with 0 where that is right. */
  static void drive(String bootstrap, int partitions, int keys, int values, int seconds, boolean isExactlyOnce)
      throws Exception {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", bootstrap);
    try (Admin admin = Admin.create(settings)) {
      short replicas = (short) Math.min(3, admin.describeCluster().nodes().get().size());
      admin.createTopics(Arrays.stream(SmokeTestDriver.topics())
          .map(topic -> new NewTopic(topic, partitions, replicas)).toList()).all().get();
    }
    System.out.println("FEEDING");
    Map<String, Set<Integer>> fed =
        SmokeTestDriver.generate(bootstrap, keys, values, Duration.ofSeconds(seconds));
    System.out.println("FED");
    SmokeTestUtil.VerificationResult found = SmokeTestDriver.verify(bootstrap, fed, values, isExactlyOnce);
    describe(settings);
    System.out.println(found.passed() ? "PASSED" : "FAILED");
    System.exit(found.passed() ? 0 : 1);
  }

  /** The application is a streams group: one of another kind is an error here. */
  static void describe(Properties settings) throws Exception {
    try (Admin admin = Admin.create(settings)) {
      StreamsGroupDescription group =
          admin.describeStreamsGroups(List.of(APPLICATION)).all().get().get(APPLICATION);
      System.out.println("GROUP " + group.groupState() + " in epoch " + group.groupEpoch() + ", "
          + group.subtopologies().size() + " subtopologies, " + group.members().size() + " members");
      group.members().forEach(each -> System.out.println("  " + each.clientId() + " at "
          + each.userEndpoint().map(end -> end.host() + ":" + end.port()).orElse("no endpoint") + ": "
          + each.assignment()));
    }
  }

  /** An instance, until it is told to end or killed. */
  static void process(Path file, String name) throws Exception {
    Properties settings = new Properties();
    try (var reader = Files.newBufferedReader(file)) {
      settings.load(reader);
    }
    new SmokeTestClient(name).start(settings);
  }
}
