"""Figures of the replicas on this node, one by one and summed up, and of topics as their leaders see them."""

from collections.abc import Iterator
from typing import Final

from headrace.log.unified_log import UnifiedLog
from headrace.metadata.topics import PartitionImage
from headrace.replication.partition import Partition
from headrace.server.parts import Parts
from headrace.telemetry.metrics.broker_topic_stats import COUNTERS
from headrace.telemetry.metrics.exposition import Families, labels_text

SLICE: Final = 100
"""Partitions, or topics, at once: some 1 to 2 ms."""

# In the order in which a replica's values are put together.
_OF_REPLICA: Final = (
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_cluster_partition_underreplicated",
    "kafka_cluster_partition_insyncreplicascount",
    "kafka_cluster_partition_replicascount",
    "kafka_cluster_partition_laststableoffsetlag",
    "kafka_log_log_size",
    "kafka_log_log_numlogsegments",
    "kafka_log_log_logstartoffset",
    "kafka_log_log_logendoffset",
)
_OF_LEADER: Final = (
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
)
OF_PARTITION: Final = (
    "kafka_topic_partition_leader",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_topic_partition_leader_is_preferred",
)
_SUMS: Final = (
    "leadercount",
    "underreplicatedpartitions",
    "underminisrpartitioncount",
    "atminisrpartitioncount",
    "offlinereplicacount",
    "reassigningpartitions",
)
_NAME_OF: Final = {counter: counter.replace("_", "") for counter in COUNTERS}


class Rows:
    """Lines of several families, a value for each at a time."""

    def __init__(self, families: Families, names: tuple[str, ...]) -> None:
        self._rows = [(name, families.rows(name)) for name in names]

    def add(self, labels: str, values: tuple[int, ...]) -> None:
        for (name, rows), value in zip(self._rows, values, strict=True):
            rows.append(f"{name}{labels} {value}\n")


def gather_partitions(families: Families, parts: Parts) -> Iterator[None]:
    """Every replica here; and what their leaders tell as kafka_exporter does."""
    sums = dict.fromkeys(_SUMS, 0)
    replica_rows, leader_rows = Rows(families, _OF_REPLICA), Rows(families, _OF_LEADER)
    partition_rows = Rows(families, OF_PARTITION)
    lags: dict[str, list[int]] = {}
    for number, partition in enumerate(list(parts.replica_manager)):
        if number % SLICE == 0:
            yield
        topic, index = partition.topic_partition
        image = parts.image.partition(topic, index)
        if image is None:
            continue  # deleted meanwhile
        labels = labels_text(topic=topic, partition=index)
        state = _isr_state(partition, image)
        _sum_up(sums, partition, image, state)
        log = partition.log
        if log is None:
            continue
        high_watermark = log.high_watermark
        replica_rows.add(
            labels,
            (
                *state,
                high_watermark - log.last_stable_offset,
                log.size_bytes,
                len(log.segments),
                log.log_start_offset,
                log.log_end_offset,
            ),
        )
        if partition.is_leader:
            if log.tiered_to is not None:
                _add_lag(lags, topic, log)
            leader_rows.add(labels, (high_watermark, log.log_start_offset))
            partition_rows.add(labels, partition_values(image))
            if index == 0:
                count = len(parts.image.topics_by_name[topic].partitions)
                families.rows("kafka_topic_partitions").append(
                    f"kafka_topic_partitions{labels_text(topic=topic)} {count}\n"
                )
    if parts.remote_log_reader is not None:
        _add_lags(families, lags)
    families.add("kafka_server_replicamanager_partitioncount", len(parts.replica_manager))
    for name, value in sums.items():
        families.add(f"kafka_server_replicamanager_{name}", value)
    context = parts.replica_manager.context
    families.add("kafka_server_replicamanager_isrshrinks_total", context.isr_shrinks)
    families.add("kafka_server_replicamanager_isrexpands_total", context.isr_expands)


def _add_lag(lags: dict[str, list[int]], topic: str, log: UnifiedLog) -> None:
    """Closed segments that the remote store has no copy of, as Kafka counts them."""
    segments = log.segments
    lag = lags.setdefault(topic, [0, 0])
    for number in range(max(segments.number_of(log.copied_to), 0), len(segments) - 1):
        following = segments.base_after(number)
        if following is not None and following > log.copied_to:
            lag[0] += segments[number].size
            lag[1] += 1


def _add_lags(families: Families, lags: dict[str, list[int]]) -> None:
    for name, at in (("bytes", 0), ("segments", 1)):
        family = f"kafka_server_brokertopicmetrics_remotecopylag{name}"
        families.add(family, sum(lag[at] for lag in lags.values()), "")
        rows = families.rows(family)
        rows.extend(f"{family}{labels_text(topic=topic)} {lag[at]}\n" for topic, lag in lags.items())


def _isr_state(partition: Partition, image: PartitionImage) -> tuple[int, int, int, int, int]:
    """At and below the minimum, lacking a replica, in sync, replicas: of a leader; a follower knows none."""
    if not partition.is_leader:
        return (0, 0, 0, 0, 0)
    log, in_sync, replicas = partition.log, partition.in_sync_count, len(image.replicas)
    # No more can be asked for than there are (KIP-966).
    minimum = min(1 if log is None else log.config.min_insync_replicas, replicas)
    return int(in_sync == minimum), int(in_sync < minimum), int(in_sync < replicas), in_sync, replicas


def _sum_up(
    sums: dict[str, int],
    partition: Partition,
    image: PartitionImage,
    state: tuple[int, int, int, int, int],
) -> None:
    sums["atminisrpartitioncount"] += state[0]
    sums["underminisrpartitioncount"] += state[1]
    sums["underreplicatedpartitions"] += state[2]
    sums["leadercount"] += partition.is_leader
    sums["reassigningpartitions"] += partition.is_leader and image.is_reassigning
    log = partition.log
    sums["offlinereplicacount"] += log is None or log.failure is not None


def partition_values(image: PartitionImage) -> tuple[int, ...]:
    """In the order of OF_PARTITION."""
    replicas, in_sync = len(image.replicas), len(image.isr)
    is_preferred = image.leader == image.preferred_leader
    return image.leader, replicas, in_sync, int(in_sync < replicas), int(is_preferred)


def gather_topics(families: Families, parts: Parts) -> Iterator[None]:
    """Kafka's BrokerTopicMetrics."""
    stats = parts.replica_manager.topic_stats
    by_topic = [name for name in COUNTERS if not name.startswith("replication")]
    rows = {
        name: families.rows(f"kafka_server_brokertopicmetrics_{_NAME_OF[name]}_total") for name in by_topic
    }
    for number, (topic, metrics) in enumerate(list(stats.by_topic.items())):
        if number % SLICE == 0:
            yield
        labels = labels_text(topic=topic)
        for name, lines in rows.items():
            family = f"kafka_server_brokertopicmetrics_{_NAME_OF[name]}_total"
            lines.append(f"{family}{labels} {getattr(metrics, name)}\n")
    for name in by_topic:
        families.add(f"kafka_server_brokertopicmetrics_{_NAME_OF[name]}_total", stats.sum(name), "")
    for name in ("replication_bytes_in", "replication_bytes_out"):
        families.add(f"kafka_server_brokertopicmetrics_{_NAME_OF[name]}_total", stats.sum(name))
