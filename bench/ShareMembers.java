import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A queue's producer and its workers for bench/share.py: KafkaShareConsumers on threads of their own. Usage:
 * ShareMembers ADDRESS. Reads orders from its input, a line each:
 * `fill TOPIC SIZE COUNT` writes records, and says `filled`;
 * `read TOPIC GROUP MODE MEMBERS COUNT` starts when all members have partitions, says `running` when a third of so many
 * different records has come (some are fetched before all start), `done RECORDS AGAIN SECONDS` when all have, with what
 * came since then (AGAIN: how often one came that had come before), and `left` when all members have left;
 * `latency TOPIC GROUP MEMBERS RATE WARM_UP SECONDS` says `ready`, and `waits P50 P99` in milliseconds and `left`;
 * `close` ends it.
 * MODE: `implicit`, the next poll accepts all of the last one; `explicit`, each record is accepted by itself and the next
 * poll carries that; `committed`, each record is accepted and committed before the next one is looked at, of ten
 * that were fetched.
 */
public final class ShareMembers {
    private static final Duration WAIT = Duration.ofMillis(100);

    private final String address;
    private final BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    private KafkaProducer<byte[], byte[]> filler;

    private ShareMembers(String address) {
        this.address = address;
    }

    /** What the members of one order share; subclasses say what a record means. */
    private abstract class Queue {
        final List<Thread> threads = new ArrayList<>();
        final CountDownLatch start = new CountDownLatch(1);
        final CountDownLatch end = new CountDownLatch(1);
        final String topic;
        final String group;
        final String mode;

        Queue(String topic, String group, String mode) {
            this.topic = topic;
            this.group = group;
            this.mode = mode;
        }

        abstract void take(Iterable<ConsumerRecord<byte[], byte[]>> records);

        void open(int members) throws Exception {
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
                ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
                admin.incrementalAlterConfigs(
                    Map.of(resource, List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
                for (int number = 0; number < members; number++) {
                    Thread thread = new Thread(this::work);
                    threads.add(thread);
                    thread.start();
                }
                while (!allAssigned(admin, members)) {
                    Thread.sleep(50);
                }
            }
        }

        private boolean allAssigned(Admin admin, int members) {
            try {
                var found = admin.describeShareGroups(List.of(group)).all().get().get(group).members();
                return found.size() == members
                    && found.stream().map(ShareMemberDescription::assignment)
                        .noneMatch(each -> each.topicPartitions().isEmpty());
            } catch (Exception notYet) {
                return false;
            }
        }

        private void work() {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", address);
            settings.put("enable.metrics.push", "false");
            settings.put("group.id", group);
            settings.put("share.acknowledgement.mode", mode.equals("implicit") ? "implicit" : "explicit");
            if (mode.equals("committed")) {
                settings.put("max.poll.records", "10");
                settings.put("share.acquire.mode", "record_limit");
            }
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings, bytes, bytes)) {
                consumer.subscribe(List.of(topic));
                consumer.poll(Duration.ZERO); // joins
                start.await();
                while (end.getCount() > 0) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(WAIT);
                    if (mode.equals("committed")) {
                        commitEach(consumer, records);
                        continue;
                    }
                    take(records);
                    if (mode.equals("explicit")) {
                        records.forEach(consumer::acknowledge);
                    }
                }
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }

        private void commitEach(
                KafkaShareConsumer<byte[], byte[]> consumer, Iterable<ConsumerRecord<byte[], byte[]>> records) {
            for (ConsumerRecord<byte[], byte[]> record : records) {
                consumer.acknowledge(record);
                consumer.commitSync();
                take(List.of(record));
            }
        }

        void close() throws InterruptedException {
            end.countDown();
            for (Thread thread : threads) {
                thread.join();
            }
            System.out.println("left");
        }
    }

    /** Takes what is there, and knows each record. */
    private final class Reading extends Queue {
        private final Map<Integer, BitSet> seen = new HashMap<>();
        private final int wanted;
        private int count;
        private int again;
        private int begunWith;
        private long began;
        private long ended;

        Reading(String topic, String group, String mode, int wanted) {
            super(topic, group, mode);
            this.wanted = wanted;
        }

        @Override
        synchronized void take(Iterable<ConsumerRecord<byte[], byte[]>> records) {
            for (ConsumerRecord<byte[], byte[]> record : records) {
                BitSet known = seen.computeIfAbsent(record.partition(), number -> new BitSet());
                if (known.get((int) record.offset())) {
                    again++;
                } else {
                    known.set((int) record.offset());
                    count++;
                }
            }
            if (count >= wanted / 3 && began == 0) {
                began = System.nanoTime();
                begunWith = count;
                System.out.println("running");
            }
            if (count >= wanted && ended == 0) {
                ended = System.nanoTime();
                end.countDown();
            }
        }

        void measure(int members) throws Exception {
            open(members);
            start.countDown();
            boolean isOver = end.await(10, TimeUnit.MINUTES);
            synchronized (this) {
                if (!isOver) {
                    throw new IllegalStateException("of " + wanted + " records only " + count + " came");
                }
                System.out.println("done " + (count - begunWith) + " " + again + " " + (ended - began) / 1e9);
            }
            close();
        }
    }

    /** Notes how long each record was on its way; its value begins with when it was sent. */
    private final class Timing extends Queue {
        private final List<Long> waits = new ArrayList<>();

        Timing(String topic, String group) {
            super(topic, group, "explicit");
        }

        @Override
        void take(Iterable<ConsumerRecord<byte[], byte[]>> records) {
            long now = System.nanoTime();
            synchronized (waits) {
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    waits.add(now - ByteBuffer.wrap(record.value()).getLong());
                }
            }
        }

        void measure(int members, int rate, double warmUp, double seconds) throws Exception {
            open(members);
            start.countDown();
            try (KafkaProducer<byte[], byte[]> producer = producer(0)) {
                send(producer, rate, (int) (rate * warmUp));
                awaitAll((int) (rate * warmUp));
                System.out.println("ready");
                orders.readLine();
                synchronized (waits) {
                    waits.clear();
                }
                send(producer, rate, (int) (rate * seconds));
            }
            awaitAll((int) (rate * seconds));
            synchronized (waits) {
                long[] sorted = waits.stream().mapToLong(Long::longValue).sorted().toArray();
                System.out.println("waits " + at(sorted, 0.5) + " " + at(sorted, 0.99));
            }
            close();
        }

        private void send(KafkaProducer<byte[], byte[]> producer, int rate, int count) {
            long began = System.nanoTime();
            for (int number = 0; number < count; number++) {
                long due = began + (long) (number * 1e9 / rate);
                for (long now = System.nanoTime(); now < due; now = System.nanoTime()) {
                    LockSupport.parkNanos(due - now);
                }
                byte[] value = new byte[100];
                ByteBuffer.wrap(value).putLong(System.nanoTime());
                producer.send(new ProducerRecord<>(topic, value));
            }
            producer.flush();
        }

        private void awaitAll(int count) throws InterruptedException {
            for (int left = 600; left > 0; left--) {
                synchronized (waits) {
                    if (waits.size() >= count) {
                        return;
                    }
                }
                Thread.sleep(100);
            }
            throw new IllegalStateException("of " + count + " records only " + waits.size() + " came");
        }

        private double at(long[] sorted, double part) {
            return sorted[Math.min(sorted.length - 1, (int) (sorted.length * part))] / 1e6;
        }
    }

    private KafkaProducer<byte[], byte[]> producer(int linger) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("enable.metrics.push", "false");
        settings.put("linger.ms", String.valueOf(linger));
        // One node, so that there is nobody else to wait for.
        settings.put("acks", "1");
        settings.put("enable.idempotence", "false");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void fill(String topic, int size, int count) {
        byte[] value = new byte[size];
        Arrays.fill(value, (byte) 'x');
        if (filler == null) {
            filler = producer(5);
        }
        for (int number = 0; number < count; number++) {
            filler.send(new ProducerRecord<>(topic, value));
        }
        filler.flush();
        System.out.println("filled");
    }

    private void follow(String[] order) throws Exception {
        switch (order[0]) {
            case "fill" -> fill(order[1], Integer.parseInt(order[2]), Integer.parseInt(order[3]));
            case "read" -> new Reading(order[1], order[2], order[3], Integer.parseInt(order[5]))
                .measure(Integer.parseInt(order[4]));
            case "latency" -> new Timing(order[1], order[2]).measure(
                Integer.parseInt(order[3]), Integer.parseInt(order[4]),
                Double.parseDouble(order[5]), Double.parseDouble(order[6]));
            default -> throw new IOException("no order: " + order[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            System.exit(1); // else what it should have done would be waited for without end
        });
        ShareMembers members = new ShareMembers(arguments[0]);
        for (String line = members.orders.readLine(); line != null && !line.equals("close");
                line = members.orders.readLine()) {
            members.follow(line.split(" "));
        }
    }
}
