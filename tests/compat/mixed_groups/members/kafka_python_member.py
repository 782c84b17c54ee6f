"""kafka-python as a member: classic groups.

Its eager members keep the positions of what they give up until they are given something: one that missed a
generation goes on where it was before, though others have read further. So a member that is given partitions
by an eager assignor begins at what is committed, as every other client does by itself.
"""

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from tests.compat.mixed_groups.members.telling import Settings, Telling, now_ms, settings

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """One consumer and its listener."""

    def __init__(self, given: Settings) -> None:
        self.given = given
        self.telling = Telling()
        self._is_to_begin_anew = False
        self.consumer = KafkaConsumer(
            bootstrap_servers=given.bootstrap,
            group_id=given.group,
            client_id=given.client_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
            heartbeat_interval_ms=given.heartbeat_ms,
            session_timeout_ms=given.session_ms,
            max_poll_interval_ms=given.poll_interval_ms,
            partition_assignment_strategy=[ASSIGNORS[given.more["assignor"]]],
        )

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.telling.assigned(place.partition for place in assigned)
        self._is_to_begin_anew = self.given.more["assignor"] == "range"

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.commit()
        self.telling.revoked(place.partition for place in revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.telling.revoked((place.partition for place in lost), "lost")

    def commit(self) -> None:
        offsets = dict(self.telling.uncommitted)
        if not offsets:
            return
        began = now_ms()
        try:
            self.consumer.commit(
                {
                    TopicPartition(self.given.topic, at): OffsetAndMetadata(to, "", -1)
                    for at, to in offsets.items()
                }
            )
            self.telling.committed(began, offsets)
        except KafkaError as error:
            self.telling.refused(error)

    def _begin_at_committed(self) -> None:
        try:
            for place in self.consumer.assignment():
                self.consumer.seek(place, self.consumer.committed(place) or 0)
            self._is_to_begin_anew = False
        except (
            KafkaError
        ) as error:  # given away again meanwhile, or nobody answers: the next turn tries again
            self.telling.refused(error)

    def run(self) -> None:
        self.consumer.subscribe([self.given.topic], listener=self)
        while not self.telling.is_asked_to_leave.is_set():
            polled = self.consumer.poll(timeout_ms=100)
            if self._is_to_begin_anew:
                self._begin_at_committed()
                continue
            self.telling.records(
                (each.partition, each.offset, each.value) for rows in polled.values() for each in rows
            )
            self.commit()
        self.consumer.close()
        if self.telling.owned:
            self.telling.revoked(self.telling.owned)
        self.telling.tell("closed")


if __name__ == "__main__":
    Member(settings()).run()
