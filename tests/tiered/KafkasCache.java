package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;

/**
 * Reads records of __remote_log_metadata, a line of hexadecimal digits each, as a broker of Apache Kafka does.
 * Prints what it refuses, and then the segments that it knows: TOPICID PARTITION SEGMENTID STATE.
 *
 * It is in Kafka's package because nobody else may ask its cache.
 */
public class KafkasCache {
    public static void main(String[] arguments) throws Exception {
        Map<TopicIdPartition, RemoteLogMetadataCache> caches = new LinkedHashMap<>();
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            RemoteLogMetadata record = serde.deserialize(HexFormat.of().parseHex(line));
            RemoteLogMetadataCache cache =
                caches.computeIfAbsent(record.topicIdPartition(), each -> new RemoteLogMetadataCache());
            cache.markInitialized();
            try {
                if (record instanceof RemoteLogSegmentMetadata announced) {
                    cache.addCopyInProgressSegment(announced);
                } else {
                    cache.updateRemoteLogSegmentMetadata((RemoteLogSegmentMetadataUpdate) record);
                }
            } catch (Exception refusal) {
                System.out.println("refused: " + record + ": " + refusal);
            }
        }
        for (TopicIdPartition each : caches.keySet()) {
            caches.get(each).listAllRemoteLogSegments().forEachRemaining(segment -> System.out.println(
                each.topicId() + " " + each.partition() + " " + segment.remoteLogSegmentId().id() + " " + segment.state()));
        }
    }
}
