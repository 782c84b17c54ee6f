"""Kafka's BrokerTopicMetrics: what clients wrote and read, by topic.

The data path adds to plain integers and does nothing else; whoever asks reads them. A topic's counters are
there while this node has a replica of it, so that names of topics cannot pile up.
"""

from __future__ import annotations


class BrokerTopicMetrics:
    """The counters of one topic on this node, from its start on."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "failed_share_acknowledgement_requests",
        "failed_share_fetch_requests",
        "messages_in",
        "partitions",
        "replication_bytes_in",
        "replication_bytes_out",
        "total_fetch_requests",
        "total_produce_requests",
        "total_share_acknowledgement_requests",
        "total_share_fetch_requests",
    )

    def __init__(self) -> None:
        self.partitions = 0  # here, of this topic
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.total_produce_requests = 0
        self.failed_produce_requests = 0
        self.total_fetch_requests = 0
        self.failed_fetch_requests = 0
        self.total_share_fetch_requests = 0
        self.failed_share_fetch_requests = 0
        self.total_share_acknowledgement_requests = 0
        self.failed_share_acknowledgement_requests = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0


COUNTERS = (
    "bytes_in",
    "bytes_out",
    "messages_in",
    "total_produce_requests",
    "failed_produce_requests",
    "total_fetch_requests",
    "failed_fetch_requests",
    "total_share_fetch_requests",
    "failed_share_fetch_requests",
    "total_share_acknowledgement_requests",
    "failed_share_acknowledgement_requests",
    "replication_bytes_in",
    "replication_bytes_out",
)


class BrokerTopicStats:
    """All topics of a node. What went with a topic that left stays in the sums."""

    def __init__(self) -> None:
        self.by_topic: dict[str, BrokerTopicMetrics] = {}
        self._gone = dict.fromkeys(COUNTERS, 0)

    def join(self, topic: str) -> BrokerTopicMetrics:
        """A partition of this topic is here from now on."""
        metrics = self.by_topic.get(topic)
        if metrics is None:
            metrics = self.by_topic[topic] = BrokerTopicMetrics()
        metrics.partitions += 1
        return metrics

    def leave(self, topic: str) -> None:
        """One of its partitions is not here any more."""
        metrics = self.by_topic[topic]
        metrics.partitions -= 1
        if not metrics.partitions:
            del self.by_topic[topic]
            for name in COUNTERS:
                self._gone[name] += getattr(metrics, name)

    def sum(self, name: str) -> int:
        """A counter over all topics, those that were here before among them: it never goes back."""
        here: int = sum(getattr(metrics, name) for metrics in self.by_topic.values())
        return self._gone[name] + here
