"""Members of consumer groups, two of each library to a group, and what they were handed.

They subscribe and commit by themselves, as most programs do. `changes` counts what a member had to give
back: a restart of brokers is no reason to rebalance, because a member keeps its place with the next
coordinator."""

import asyncio
from abc import abstractmethod

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AiokafkaPlace
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPlace

from headrace.base.ids import TopicPartition
from headrace.clients import Consumer, RebalanceListener
from tests.compat.faults.readers import Reader

MEMBERS = 2


class Member(Reader):
    """A reader that gets its partitions from a group named after its library."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(bootstrap, topic, partitions)
        self.owned: set[int] = set()
        self.changes = 0

    @property
    def group(self) -> str:
        return f"rolling-{self.name}"

    def take(self, partitions: set[int]) -> None:
        self.owned |= partitions

    def give_back(self, partitions: set[int]) -> None:
        self.owned -= partitions
        self.changes += bool(partitions) and not self._is_over.is_set()

    @abstractmethod
    def _read(self) -> None: ...


class ConfluentMember(Member):
    name = "confluent"

    def _read(self) -> None:
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "log_level": 0,
            }
        )

        def assigned(_: ConfluentConsumer, places: list[ConfluentPlace]) -> None:
            self.take({place.partition for place in places})

        def revoked(_: ConfluentConsumer, places: list[ConfluentPlace]) -> None:
            self.give_back({place.partition for place in places})

        consumer.subscribe([self._topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        while not self._is_over.is_set():
            for message in consumer.consume(500, timeout=0.1):
                if message.error() is not None:
                    raise RuntimeError(message.error())
                self.seen[message.partition()].append((message.offset(), message.value()))
        consumer.close()


class AiokafkaMember(Member):
    name = "aiokafka"

    def _read(self) -> None:
        asyncio.run(self._read_async())

    async def _read_async(self) -> None:
        member = self

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: set[AiokafkaPlace]) -> None:
                member.give_back({place.partition for place in revoked})

            async def on_partitions_assigned(self, assigned: set[AiokafkaPlace]) -> None:
                member.take({place.partition for place in assigned})

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
            session_timeout_ms=45_000,  # as the others have it
        )
        consumer.subscribe([self._topic], listener=Listener())
        await consumer.start()
        while not self._is_over.is_set():
            for place, records in (await consumer.getmany(timeout_ms=100)).items():
                self.seen[place.partition] += [(each.offset, each.value) for each in records]
        await consumer.stop()


class HeadraceMember(Member):
    name = "headrace"
    protocol = "classic"

    def _read(self) -> None:
        member = self

        class Listener(RebalanceListener):
            def on_revoked(self, partitions: list[TopicPartition]) -> None:
                member.give_back({place.partition for place in partitions})

            def on_assigned(self, partitions: list[TopicPartition]) -> None:
                member.take({place.partition for place in partitions})

        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
        with Consumer(settings) as consumer:
            consumer.subscribe([self._topic], listener=Listener())
            while not self._is_over.is_set():
                for record in consumer.poll(0.1):
                    self.seen[record.partition].append((record.offset, record.value))


class HeadraceAssignedMember(HeadraceMember):
    """In a group whose coordinator assigns (KIP-848)."""

    name = "headrace-848"
    protocol = "consumer"


MEMBER_KINDS: tuple[type[Member], ...] = (
    ConfluentMember,
    AiokafkaMember,
    HeadraceMember,
    HeadraceAssignedMember,
)
