"""Every metric that a node shows: its name, kind, labels and meaning, as a text that a person can read.

Names are those under which dashboards know them: what the JMX exporter makes of Kafka's MBeans under
Strimzi's rules, and those of kafka_exporter for topics and groups. What Kafka does not have begins with
`headrace_`. Nothing is shown that does not stand here, and docs/monitoring.md is made from it.

    kafka_server_replicamanager_leadercount  gauge
        Partitions that this node leads.

The first line is name, kind and labels. `number` stands for a gauge whose name looks like another kind's.
Labels are bounded: by topics and partitions that are here, by groups, by request kinds and their versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

KINDS: Final = ("counter", "gauge", "histogram", "number")


class MetricSpec(NamedTuple):
    """One metric. A counter's `name` has its `_total`."""

    section: str
    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


_TABLE: Final = """
# Topics: what clients write and read here
kafka_server_brokertopicmetrics_bytesin_total  counter  topic
    Bytes of batches that clients and coordinators have written. Without topic: all of them.
kafka_server_brokertopicmetrics_bytesout_total  counter  topic
    Bytes of batches that consumers were sent. Without topic: all of them.
kafka_server_brokertopicmetrics_messagesin_total  counter  topic
    Records that clients and coordinators have written. Without topic: all of them.
kafka_server_brokertopicmetrics_totalproducerequests_total  counter  topic
    Parts of Produce requests, one for each partition. Without topic: all of them.
kafka_server_brokertopicmetrics_failedproducerequests_total  counter  topic
    Those of them that were refused, for whatever reason. Without topic: all of them.
kafka_server_brokertopicmetrics_totalfetchrequests_total  counter  topic
    Looks into a partition for a Fetch request of a consumer or follower. Without topic: all of them.
kafka_server_brokertopicmetrics_failedfetchrequests_total  counter  topic
    Those of them that ended in an error, for whatever reason. Without topic: all of them.
kafka_server_brokertopicmetrics_totalsharefetchrequests_total  counter  topic
    Looks into a partition for a ShareFetch of a share group's member. Without topic: all of them.
kafka_server_brokertopicmetrics_failedsharefetchrequests_total  counter  topic
    Those of them that ended in an error. Without topic: all of them.
kafka_server_brokertopicmetrics_totalshareacknowledgementrequests_total  counter  topic
    Acknowledgements in a ShareFetch or ShareAcknowledge, one for each partition. Without topic: all of them.
kafka_server_brokertopicmetrics_failedshareacknowledgementrequests_total  counter  topic
    Those of them that were refused, or could not be written. Without topic: all of them.
kafka_server_brokertopicmetrics_replicationbytesin_total  counter
    Bytes that this node has fetched as follower.
kafka_server_brokertopicmetrics_replicationbytesout_total  counter
    Bytes that followers have fetched from here.

# Replicas on this node
kafka_server_replicamanager_leadercount  gauge
    Partitions that this node leads.
kafka_server_replicamanager_partitioncount  gauge
    Partitions with a replica here.
kafka_server_replicamanager_underreplicatedpartitions  gauge
    Partitions led here whose in-sync set lacks a replica.
kafka_server_replicamanager_underminisrpartitioncount  gauge
    Partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused.
kafka_server_replicamanager_atminisrpartitioncount  gauge
    Partitions led here with just as many in sync as min.insync.replicas asks for.
kafka_server_replicamanager_offlinereplicacount  gauge
    Replicas here whose log directory is offline.
kafka_server_replicamanager_reassigningpartitions  gauge
    Partitions led here whose replicas are being moved.
kafka_server_replicamanager_isrshrinks_total  counter
    In-sync sets that became smaller by a proposal of this node.
kafka_server_replicamanager_isrexpands_total  counter
    In-sync sets that became larger by a proposal of this node.

# Partitions with a replica on this node
kafka_cluster_partition_atminisr  gauge  topic partition
    1 where this node leads and just min.insync.replicas are in sync.
kafka_cluster_partition_underminisr  gauge  topic partition
    1 where this node leads and fewer than min.insync.replicas are in sync.
kafka_cluster_partition_underreplicated  gauge  topic partition
    1 where this node leads and the in-sync set lacks a replica.
kafka_cluster_partition_insyncreplicascount  gauge  topic partition
    Replicas in sync, where this node leads; else 0.
kafka_cluster_partition_replicascount  gauge  topic partition
    Replicas, where this node leads; else 0.
kafka_cluster_partition_laststableoffsetlag  gauge  topic partition
    Records between the last stable offset and the high watermark: held back by open transactions.
kafka_log_log_size  gauge  topic partition
    Bytes of the log on this node's disk.
kafka_log_log_numlogsegments  gauge  topic partition
    Segments of the log on this node's disk.
kafka_log_log_logstartoffset  gauge  topic partition
    The first offset of the log.
kafka_log_log_logendoffset  gauge  topic partition
    The offset that the next record will get.

# Topics as kafka_exporter shows them: by who leads, or by the active controller where nobody does
kafka_topic_partitions  gauge  topic
    Partitions of the topic; told by who leads its first one.
kafka_topic_partition_current_offset  gauge  topic partition
    The high watermark: the offset behind the last record that consumers may read.
kafka_topic_partition_oldest_offset  gauge  topic partition
    The first offset that can be read.
kafka_topic_partition_in_sync_replica  gauge  topic partition
    Replicas in sync.
kafka_topic_partition_replicas  gauge  topic partition
    Replicas.
kafka_topic_partition_leader  gauge  topic partition
    The leader's node id; -1 for none.
kafka_topic_partition_leader_is_preferred  gauge  topic partition
    1 where the leader is the first of the replicas.
kafka_topic_partition_under_replicated_partition  gauge  topic partition
    1 where fewer replicas are in sync than there are.
kafka_brokers  gauge
    Brokers that are unfenced; told by the active controller.
kafka_broker_info  gauge  id address
    1, told by each broker of itself.

# Consumer groups, by their coordinator
kafka_consumergroup_current_offset  gauge  consumergroup topic partition
    The offset that the group has committed.
kafka_consumergroup_lag  gauge  consumergroup topic partition
    Records between that and the high watermark; absent while the partition's leader cannot be asked.
kafka_consumergroup_current_offset_sum  number  consumergroup topic
    Sum of the committed offsets over partitions.
kafka_consumergroup_lag_sum  number  consumergroup topic
    Sum of the lags over partitions.
kafka_consumergroup_members  gauge  consumergroup
    Members of the group.
kafka_coordinator_group_groupmetadatamanager_numgroups  gauge
    Groups that this node coordinates.
kafka_coordinator_group_groupmetadatamanager_numoffsets  gauge
    Committed offsets of those groups.
kafka_coordinator_group_groupmetadatamanager_numgroupsempty  gauge
    Classic groups without members.
kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance  gauge
    Classic groups that wait for their members to join.
kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance  gauge
    Classic groups that wait for their leader's assignment.
kafka_coordinator_group_groupmetadatamanager_numgroupsstable  gauge
    Classic groups whose members have an assignment.
kafka_coordinator_group_groupmetadatamanager_numgroupsdead  gauge
    Classic groups that are being removed.
kafka_server_group_coordinator_metrics_group_count  number  protocol
    Groups that this node coordinates, by protocol: classic, consumer (KIP-848), share or streams.
kafka_server_group_coordinator_metrics_classic_group_count  number  state
    Classic groups, by state.
kafka_server_group_coordinator_metrics_consumer_group_count  number  state
    Consumer groups of KIP-848, by state.
kafka_server_group_coordinator_metrics_share_group_count  number  state
    Share groups, by state.
kafka_server_group_coordinator_metrics_streams_group_count  number  state
    Streams groups, by state.
kafka_server_group_coordinator_metrics_num_partitions  gauge  state
    Partitions of __consumer_offsets that this node coordinates: active, or loading.
headrace_transactional_ids  gauge  state
    Transactional ids that this node coordinates, by the state of their transaction.

# Share groups: what their members do here, and the states that this node keeps
headrace_share_partitions  gauge  state
    Share partitions in use on this node, which leads them: active, or loading.
kafka_server_sharepartitionmetrics_inflightmessagecount  gauge  group topic partition
    Records that are handed out, or wait to be handed out again.
kafka_server_sharepartitionmetrics_inflightbatchcount  gauge  group topic partition
    Ranges of records in one state, of which there is one for each batch that was handed out.
kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total  counter  group topic partition
    Records whose lock ended without an answer, since the share partition was loaded.
kafka_server_sharegroupmetrics_recordacknowledgements_total  counter  ack_type
    Records that members answered for: Accept, Release, Reject or Renew.
kafka_server_sharegroupmetrics_deadletterqueuerecord_total  counter
    Dead letters written for records that groups rejected or gave up.
kafka_server_sharegroupmetrics_partitionloadtimems  histogram
    Milliseconds that it took to load a share partition.
kafka_server_sharesessioncache_sharesessionscount  gauge
    Share sessions that are kept: members that read from here.
kafka_server_sharesessioncache_sharepartitionscount  gauge
    Partitions that they read, each counted for each of its members.
kafka_server_share_coordinator_metrics_num_partitions  gauge  state
    Partitions of __share_group_state that this node coordinates: active, or loading.
kafka_server_share_coordinator_metrics_write_total  counter
    States of share partitions that were written, as coordinator.
kafka_server_share_coordinator_metrics_write_rate  gauge
    States written a second, over the last half minute.
kafka_server_share_coordinator_metrics_write_latency_avg  gauge
    Milliseconds from a request to write them to their replication, on average over the last half minute.

# The controller, on nodes with that role
kafka_controller_kafkacontroller_activecontrollercount  gauge
    1 on the active controller, 0 on the others.
kafka_controller_kafkacontroller_activebrokercount  gauge
    Brokers that are unfenced.
kafka_controller_kafkacontroller_fencedbrokercount  gauge
    Brokers that are registered and fenced.
kafka_controller_kafkacontroller_globaltopiccount  gauge
    Topics of the cluster.
kafka_controller_kafkacontroller_globalpartitioncount  gauge
    Partitions of the cluster.
kafka_controller_kafkacontroller_offlinepartitionscount  gauge
    Partitions of the cluster without a leader.
kafka_controller_kafkacontroller_preferredreplicaimbalancecount  gauge
    Partitions of the cluster that are not led by the first of their replicas.
kafka_controller_controllerstats_uncleanleaderelections_total  counter
    Leaders that were elected out of the in-sync set while this controller has run: records may be lost.

# The metadata quorum
kafka_server_raftmetrics_current_state  gauge  current_state
    1, with this node's part in the quorum as label.
kafka_server_raftmetrics_current_leader  gauge
    The node id of the quorum's leader; -1 for none.
kafka_server_raftmetrics_current_vote  gauge
    The node id that this node has voted for in this epoch; -1 for none.
kafka_server_raftmetrics_current_epoch  gauge
    The quorum's epoch.
kafka_server_raftmetrics_high_watermark  gauge
    The offset behind the last committed record of the metadata log.
kafka_server_raftmetrics_log_end_offset  gauge
    The offset behind the last record of the metadata log on this node.
kafka_server_raftmetrics_append_records_rate  gauge
    Records a second that this node wrote as leader, over the last half minute.
kafka_server_raftmetrics_fetch_records_rate  gauge
    Records a second that this node fetched from the leader, over the last half minute.
kafka_server_raftmetrics_commit_latency_avg  gauge
    Milliseconds from writing a record as leader to its commit, on average over the last half minute.
kafka_server_raftchannelmetrics_incoming_byte_total  counter
    Bytes of responses that this node got from others of the quorum.
kafka_server_raftchannelmetrics_outgoing_byte_total  counter
    Bytes of requests that this node sent to others of the quorum.
kafka_server_raftchannelmetrics_request_total  counter
    Requests that this node sent to others of the quorum.
kafka_server_raftchannelmetrics_response_total  counter
    Responses that this node got from others of the quorum.

# Logs: flushing, cleaning, and the remote store
kafka_log_logflushstats_logflushrateandtimems  histogram
    Milliseconds that the flush of a log took, a thread for it among them. Its count is how many there were.
kafka_log_logcleaner_max_clean_time_secs  gauge
    Seconds that the last round over a log took.
kafka_log_logcleaner_cleaner_recopy_percent  gauge
    Of 100 bytes that the last round read, how many it kept.
kafka_log_logcleanermanager_uncleanable_partitions_count  number
    Logs that are left alone because they could not be cleaned; the node's log says why.
headrace_log_cleaner_rounds_total  counter
    Rounds over a log that are done.
headrace_log_cleaner_rounds_under_way  gauge
    Logs that are being cleaned.
headrace_log_cleaner_freed_bytes_total  counter
    Bytes that rounds have freed.
kafka_server_brokertopicmetrics_remotecopybytes_total  counter
    Bytes of segments that were copied to the remote store; where topics can be tiered.
kafka_server_brokertopicmetrics_remotecopylagbytes  gauge  topic
    Bytes of closed segments that are not in the remote store yet, of partitions led here. Without topic: all.
kafka_server_brokertopicmetrics_remotecopylagsegments  gauge  topic
    How many segments that are. Without topic: of all.
kafka_server_brokertopicmetrics_remotefetchbytes_total  counter
    Bytes that were read from the remote store for clients.
kafka_server_brokertopicmetrics_remotefetchrequests_total  counter
    Reads of the remote store for clients.
kafka_server_brokertopicmetrics_remotefetcherrors_total  counter
    Those of them that failed.
headrace_remote_log_tasks  gauge  task
    Tasks of partitions that are under way, by what they do in the remote store.
headrace_remote_log_task_failures_total  counter  task
    Tasks that failed, and are tried again.

# Requests and connections
kafka_network_requestmetrics_requests_total  counter  request version
    Requests that were served, by kind and version.
kafka_network_requestmetrics_errors_total  counter  request error
    Requests, or parts of them, that were answered with an error.
kafka_network_requestmetrics_requestqueuetimems  histogram  request
    Milliseconds from when a request was read to when it was begun; of some requests, like all that follow.
kafka_network_requestmetrics_localtimems  histogram  request
    Milliseconds that the loop was busy with a request; its share, where a run of them was served at once.
kafka_network_requestmetrics_remotetimems  histogram  request
    Milliseconds that it waited: for replicas, the disk, records, the controller, or others between slices.
kafka_network_requestmetrics_throttletimems  histogram  request
    Milliseconds that its reply told the client to wait, for a quota.
kafka_network_requestmetrics_responsequeuetimems  histogram  request
    Milliseconds that its reply waited for those before it, until the kernel was given the first of it.
kafka_network_requestmetrics_responsesendtimems  histogram  request
    Milliseconds from then on until the kernel had taken all of it.
kafka_network_requestmetrics_totaltimems  histogram  request
    Milliseconds from when it was read to when its reply was sent.
kafka_network_requestmetrics_requestbytes  histogram  request
    Bytes of a request.
kafka_network_requestmetrics_responsebytes  histogram  request
    Bytes of its reply, which Kafka does not tell.
kafka_server_socket_server_metrics_connection_count  number  listener
    Connections that are open. There is one network processor, the loop, and no label for it.
kafka_network_socketserver_networkprocessoravgidle_percent  gauge
    Share of a core (0 to 1) that the loop's thread left unused since the last scrape; near 0: add nodes.
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent  gauge
    Share of time (0 to 1) since the last scrape in which the loop, the only handler, served no request.
headrace_certificate_expiry_timestamp_seconds  gauge  listener
    When the first certificate of a listener with TLS ends, since the epoch.
kafka_server_socket_server_metrics_successful_authentication_total  counter  listener
    Logins by SASL that were successful.
kafka_server_socket_server_metrics_failed_authentication_total  counter  listener
    Logins by SASL that failed.
headrace_delayed_operations  gauge
    Requests that wait: for records, replicas or the disk.
kafka_server_fetchsessioncache_numincrementalfetchsessions  gauge
    Fetch sessions that are kept.
headrace_audit_events_missing_total  counter
    Events that the audit trail lacks, where there is one: they came too fast, or its disk is full or fails.

# Quotas: by kind, by client that one binds (the 200 of each kind that use most), and of new connections
headrace_throttled_connections  gauge
    Connections that are not read now, because their client is above a quota.
headrace_throttled_replies_total  counter  quota
    Replies that told a client to wait, by quota: Produce, Fetch, Request or ControllerMutation.
headrace_throttle_seconds_total  counter  quota
    For how long they were told to wait, in all.
kafka_server_produce_byte_rate  gauge  user client_id
    Bytes a second that clients with a quota have produced, over its windows.
kafka_server_produce_throttle_time  gauge  user client_id
    Milliseconds that they were told to wait for it, on average over its windows; 0 where they were not.
kafka_server_fetch_byte_rate  gauge  user client_id
    Bytes a second that consumers with a quota were sent.
kafka_server_fetch_throttle_time  gauge  user client_id
    Milliseconds that they were told to wait for it.
kafka_server_request_request_time  gauge  user client_id
    Percents of the loop's time that clients with a quota of it have used.
kafka_server_request_throttle_time  gauge  user client_id
    Milliseconds that they were told to wait for it.
kafka_server_controllermutation_mutation_rate  gauge  user client_id
    Partitions a second that clients with a quota have made or removed; told by the active controller.
kafka_server_controllermutation_throttle_time  gauge  user client_id
    Milliseconds that they were told to wait for it.
headrace_connection_throttles_total  counter  listener limit
    How often the listener stopped accepting for a rate of new connections, or an address had to wait (ip).
kafka_server_socket_server_metrics_connection_accept_throttle_time  gauge  listener
    Milliseconds for which the listener stopped accepting, on average over the last half minute.
kafka_server_socket_server_metrics_ip_connection_accept_throttle_time  gauge  listener
    Milliseconds that addresses above their quota of new connections had to wait, likewise.

# Clients, by what they push (KIP-714)
headrace_client_metric  gauge  metric client_id client_instance_id attributes
    A value that a client has pushed: shown by the broker that it pushes to, until it has missed three pushes.
headrace_client_metric_sum_total  counter  metric client_id client_instance_id attributes
    A total that a client has pushed; deltas are added up, from the first one that this broker got.
headrace_client_metrics_instances  gauge
    Clients that have asked this node which metrics to push.
headrace_client_metrics_pushes_total  counter  error
    Pushes of clients, by what they were answered.
headrace_client_metrics_left_out_total  counter
    Values that were pushed and are not shown: of more than 200 clients, or more than 500 of one.
headrace_client_metrics_handed_on_total  counter  outcome
    Pushes for headrace.client.metrics.otlp.endpoint: sent or lost.

# Disks and the process
kafka_log_logmanager_offlinelogdirectorycount  gauge
    Log directories that are offline.
headrace_log_directory_size_bytes  gauge  directory
    Size of the file system that a log directory lies on.
headrace_log_directory_available_bytes  gauge  directory
    What is free of it.
headrace_log_segment_files_open  gauge
    Files of segments that are kept open.
kafka_server_kafkaserver_brokerstate  gauge
    Kafka's number: 1 starting, 3 running, 6 stopping.
kafka_server_kafkaserver_linux_disk_read_bytes  gauge
    Bytes that this process had read from disks (Linux).
kafka_server_kafkaserver_linux_disk_write_bytes  gauge
    Bytes that this process had written to disks (Linux).
process_cpu_seconds_total  counter
    Processor time of this process.
process_resident_memory_bytes  gauge
    Memory that this process holds.
process_virtual_memory_bytes  gauge
    Its address space.
process_start_time_seconds  gauge
    When it was started, since the epoch.
process_open_fds  gauge
    Files and connections that it has open.
process_max_fds  gauge
    How many it may have open.
headrace_scrape_seconds  gauge
    How long it took to gather what the scrape before this one was told.
headrace_build_info  gauge  version python
    1, with what runs here as labels.
"""


def _read(text: str) -> Iterator[MetricSpec]:
    section = ""
    lines = iter([line for line in text.splitlines() if line])
    for line in lines:
        if line.startswith("# "):
            section = line[2:]
            continue
        name, kind, *labels = line.split()
        assert kind in KINDS, line
        assert (kind == "counter") is name.endswith("_total"), line
        yield MetricSpec(section, name, kind, tuple(labels), next(lines).strip())


METRICS: Final[dict[str, MetricSpec]] = {spec.name: spec for spec in _read(_TABLE)}
