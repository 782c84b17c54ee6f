"""kafka-python as a copier."""

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError, ProducerFencedError

from tests.compat.copiers.programs.settings import Settings, settings


class Copier(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """One consumer, and one producer that commits for it."""

    def __init__(self, given: Settings) -> None:
        self.given = given
        self.is_changed = False
        self.producer = KafkaProducer(
            bootstrap_servers=given.bootstrap.split(","),
            transactional_id=given.transactional_id,
            transaction_timeout_ms=given.transaction_ms,
            linger_ms=2,
        )
        self.consumer = KafkaConsumer(
            bootstrap_servers=given.bootstrap.split(","),
            group_id=given.group,
            session_timeout_ms=given.session_ms,
            heartbeat_interval_ms=given.heartbeat_ms,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.is_changed = True

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.is_changed = True

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.is_changed = True

    def run(self) -> None:
        self.producer.init_transactions()
        self.consumer.subscribe([self.given.source], listener=self)
        while True:
            polled = self.consumer.poll(timeout_ms=200, max_records=self.given.size)
            if self.is_changed:
                self.is_changed = False
                self._rewind()
            elif polled:
                self._copy(polled)

    def _copy(self, polled: dict[TopicPartition, list[object]]) -> None:
        places = {
            place: OffsetAndMetadata(rows[-1].offset + 1, "", -1)  # type: ignore[attr-defined]
            for place, rows in polled.items()
        }
        self.producer.begin_transaction()
        try:
            for place, rows in polled.items():
                for row in rows:
                    self.producer.send(self.given.target, row.value, partition=place.partition)  # type: ignore[attr-defined]
            self.producer.send_offsets_to_transaction(places, self.consumer.group_metadata())
            self.producer.commit_transaction()
        except ProducerFencedError:
            raise
        except KafkaError:
            self.producer.abort_transaction()
            self._rewind()

    def _rewind(self) -> None:
        """Go on behind what the group has committed."""
        for place in self.consumer.assignment():
            self.consumer.seek(place, self.consumer.committed(place) or 0)


if __name__ == "__main__":
    Copier(settings()).run()
