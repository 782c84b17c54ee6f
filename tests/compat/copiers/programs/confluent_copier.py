"""librdkafka as a copier."""

from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from tests.compat.copiers.programs.settings import Settings, settings

SECONDS = 60.0


class Copier:
    """One consumer, and one producer that commits for it."""

    def __init__(self, given: Settings) -> None:
        self.given = given
        self.is_changed = False
        self.producer = Producer(
            {
                "bootstrap.servers": given.bootstrap,
                "transactional.id": given.transactional_id,
                "transaction.timeout.ms": given.transaction_ms,
                "linger.ms": 2,
                "log_level": 0,
            }
        )
        self.consumer = Consumer(
            {
                "bootstrap.servers": given.bootstrap,
                "group.id": given.group,
                "session.timeout.ms": given.session_ms,
                "heartbeat.interval.ms": given.heartbeat_ms,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        self.producer.init_transactions(SECONDS)
        change = self._change
        self.consumer.subscribe([self.given.source], on_assign=change, on_revoke=change, on_lost=change)
        while True:
            messages = [each for each in self.consumer.consume(self.given.size, 0.2) if not each.error()]
            if self.is_changed:
                # Some may be of a partition that went away in the middle of this call, or came back.
                self.is_changed = False
                self._rewind()
            elif messages:
                self._copy(messages)

    def _change(self, _: Consumer, __: list[Place]) -> None:
        self.is_changed = True

    def _copy(self, messages: list[Message]) -> None:
        ends = {each.partition(): each.offset() + 1 for each in messages}
        places = [Place(self.given.source, at, end) for at, end in ends.items()]
        self.producer.begin_transaction()
        try:
            for each in messages:
                self.producer.produce(self.given.target, each.value(), partition=each.partition())
            group = self.consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction(places, group, SECONDS)
            self.producer.commit_transaction(SECONDS)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.producer.abort_transaction(SECONDS)
            self._rewind()

    def _rewind(self) -> None:
        """Go on behind what the group has committed."""
        if mine := self.consumer.assignment():
            for place in self.consumer.committed(mine, SECONDS):
                self.consumer.seek(Place(place.topic, place.partition, max(place.offset, 0)))


if __name__ == "__main__":
    Copier(settings()).run()
