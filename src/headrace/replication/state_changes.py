"""What a commit of the metadata log changed for the replicas of this node, told in one line (Kafka's
state.change.logger).

Leadership of thousands of partitions moves in one commit: the line at info has how many and the first few
names, the lines at debug have each of them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.base.ids import TopicPartition

if TYPE_CHECKING:
    from headrace.replication.partition import Partition

logger = logging.getLogger(__name__)

NAMES_MAX: Final = 5


class StateChanges:
    """Changes since the last line."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._led: list[TopicPartition] = []
        self._followed: list[TopicPartition] = []
        self._without_leader: list[TopicPartition] = []
        self._dropped: list[TopicPartition] = []
        self.is_stopping = False
        """Then it is no news that some have no leader: nobody else could lead them."""

    def note(self, partition: Partition, leader_before: int | None, epoch_before: int) -> None:
        """A partition was followed; without a leader before where its replica is new."""
        leader, epoch = partition.leader_id, partition.leader_epoch
        if leader == leader_before and (epoch == epoch_before or leader != self._node_id):
            return
        if leader == self._node_id:
            self._led.append(partition.topic_partition)
        elif leader < 0:
            self._without_leader.append(partition.topic_partition)
        else:
            self._followed.append(partition.topic_partition)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: leader %d in epoch %d", partition.topic_partition, leader, epoch)

    def note_dropped(self, topic_partition: TopicPartition) -> None:
        """The topic was deleted, or the replica moved elsewhere."""
        self._dropped.append(topic_partition)

    def tell(self) -> None:
        """One line for all that was noted."""
        if self._led or self._followed or self._dropped:
            logger.info(
                "partitions led here from now on: %s; followed: %s; dropped: %s",
                *map(_names, (self._led, self._followed, self._dropped)),
            )
        if self._without_leader:
            level = logging.INFO if self.is_stopping else logging.WARNING
            logger.log(level, "partitions without a leader: %s", _names(self._without_leader))
        self._led, self._followed, self._without_leader, self._dropped = [], [], [], []


def _names(partitions: list[TopicPartition]) -> str:
    """`3 (a-0, a-1, b-0)`; the first of many."""
    if not partitions:
        return "none"
    first = ", ".join(map(str, partitions[:NAMES_MAX]))
    return f"{len(partitions)} ({first}{', …' if len(partitions) > NAMES_MAX else ''})"
