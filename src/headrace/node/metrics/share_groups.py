"""Share groups: the share partitions that this node leads, and the states that it keeps as coordinator."""

from collections.abc import Iterator
from typing import Final

from headrace.server.parts import Parts
from headrace.telemetry.metrics.exposition import Families, labels_text
from headrace.telemetry.metrics.window import Window
from headrace.wire.schemas.share_fetch import AcknowledgeType

SLICE: Final = 100

_COORDINATOR: Final = "kafka_server_share_coordinator_metrics"
_PARTITION: Final = "kafka_server_sharepartitionmetrics"
_GROUP: Final = "kafka_server_sharegroupmetrics"


class ShareFigures:
    """Rates and averages of the coordinator are over the last half minute, as those of the quorum."""

    def __init__(self) -> None:
        self._writes = Window()
        self._requests = Window()
        self._seconds = Window()

    def gather(self, families: Families, parts: Parts) -> Iterator[None]:
        yield
        self._gather_coordinator(families, parts)
        yield from _gather_partitions(families, parts)

    def _gather_coordinator(self, families: Families, parts: Parts) -> None:
        coordinator, now_s = parts.share_groups.coordinator, parts.loop.time()
        for state, count in coordinator.runtime.partition_counts().items():
            families.add(f"{_COORDINATOR}_num_partitions", count, state)
        families.add(f"{_COORDINATOR}_write_total", coordinator.writes)
        families.add(f"{_COORDINATOR}_write_rate", self._writes.rate(now_s, coordinator.writes))
        requests = self._requests.rate(now_s, coordinator.write_requests)
        took_s = self._seconds.rate(now_s, coordinator.write_s)
        families.add(f"{_COORDINATOR}_write_latency_avg", 1000 * took_s / requests if requests else 0.0)


def _gather_partitions(families: Families, parts: Parts) -> Iterator[None]:
    manager = parts.share_groups.manager
    families.add("kafka_server_sharesessioncache_sharesessionscount", len(manager.sessions))
    families.add("kafka_server_sharesessioncache_sharepartitionscount", manager.sessions.partitions)
    for kind in AcknowledgeType:
        if kind is not AcknowledgeType.GAP:
            count = manager.metrics.acknowledged[kind]
            families.add(f"{_GROUP}_recordacknowledgements_total", count, kind.name.capitalize())
    families.add(f"{_GROUP}_deadletterqueuerecord_total", manager.metrics.dead_letters)
    families.add_histogram(f"{_GROUP}_partitionloadtimems", manager.metrics.partition_load_ms)
    led = list(manager)
    families.add("headrace_share_partitions", len(led), "active")
    families.add("headrace_share_partitions", manager.loading, "loading")
    for number, each in enumerate(led):
        if number % SLICE == 0:
            yield
        topic, index = each.partition.topic_partition
        labels = labels_text(group=each.core.key.group_id, topic=topic, partition=index)
        for name, value in (
            (f"{_PARTITION}_inflightmessagecount", each.core.in_flight()),
            (f"{_PARTITION}_inflightbatchcount", sum(1 for _ in each.core)),
            (f"{_PARTITION}_acquisitionlocktimeout_total", each.lock_timeouts),
        ):
            families.rows(name).append(f"{name}{labels} {value}\n")
