"""Figures of the metadata quorum, and of the cluster as a controller sees it."""

from collections.abc import Iterator
from typing import Final

from headrace.base.ids import NO_LEADER
from headrace.node.metrics.partitions import OF_PARTITION, Rows, partition_values
from headrace.raft.messages import NOBODY
from headrace.server.parts import Parts
from headrace.telemetry.metrics.exposition import Families, labels_text
from headrace.telemetry.metrics.window import Window

SLICE: Final = 5_000
"""Partitions of the cluster at once: about a millisecond."""


class QuorumFigures:
    """Rates need to know how it was before."""

    def __init__(self) -> None:
        self._appended = Window()
        self._fetched = Window()
        self._commits = Window()
        self._commit_ms = Window()

    def gather(self, families: Families, parts: Parts) -> Iterator[None]:
        """This node's part in the quorum."""
        client, core = parts.quorum.client, parts.quorum.client.core
        channel = parts.quorum.channel
        now_s = parts.loop.time()
        yield
        role = str(core.role) if core.is_voter else "observer"
        families.add("kafka_server_raftmetrics_current_state", 1, role)
        families.add("kafka_server_raftmetrics_current_leader", core.leader_id)
        vote = core.state.voted_id
        families.add("kafka_server_raftmetrics_current_vote", -1 if vote == NOBODY else vote)
        families.add("kafka_server_raftmetrics_current_epoch", core.epoch)
        families.add("kafka_server_raftmetrics_high_watermark", client.high_watermark)
        families.add("kafka_server_raftmetrics_log_end_offset", client.next_offset)
        families.add(
            "kafka_server_raftmetrics_append_records_rate",
            self._appended.rate(now_s, client.appended_records),
        )
        families.add(
            "kafka_server_raftmetrics_fetch_records_rate", self._fetched.rate(now_s, client.fetched_records)
        )
        commits = self._commits.rate(now_s, client.commits)
        commit_ms = self._commit_ms.rate(now_s, client.commit_ns / 1e6)
        families.add("kafka_server_raftmetrics_commit_latency_avg", commit_ms / commits if commits else 0.0)
        traffic = channel.traffic
        for name, value in (
            ("incoming_byte", traffic.received_bytes),
            ("outgoing_byte", traffic.sent_bytes),
            ("request", channel.requests),
            ("response", channel.responses),
        ):
            families.add(f"kafka_server_raftchannelmetrics_{name}_total", value)


def gather_cluster(families: Families, parts: Parts) -> Iterator[None]:
    """What every controller knows, and what the active one tells for partitions that nobody leads."""
    controller = parts.own_controller
    if controller is None:
        return
    image = parts.image
    is_active = controller.is_active
    orphan_rows = Rows(families, OF_PARTITION)
    partitions = offline = imbalanced = 0
    for topic in list(image.topics_by_name.values()):
        for index, partition in list(topic.partitions.items()):
            partitions += 1
            if partitions % SLICE == 0:
                yield
            imbalanced += partition.leader != partition.preferred_leader
            if partition.leader == NO_LEADER:
                offline += 1
                if is_active:
                    labels = labels_text(topic=topic.name, partition=index)
                    orphan_rows.add(labels, partition_values(partition))
    fenced = sum(broker.fenced for broker in image.brokers.values())
    active = len(image.brokers) - fenced
    for name, value in (
        ("activecontrollercount", int(is_active)),
        ("activebrokercount", active),
        ("fencedbrokercount", fenced),
        ("globaltopiccount", len(image.topics_by_name)),
        ("globalpartitioncount", partitions),
        ("offlinepartitionscount", offline),
        ("preferredreplicaimbalancecount", imbalanced),
    ):
        families.add(f"kafka_controller_kafkacontroller_{name}", value)
    families.add(
        "kafka_controller_controllerstats_uncleanleaderelections_total", controller.core.unclean_elections
    )
    if is_active:
        families.add("kafka_brokers", active)
