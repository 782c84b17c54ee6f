"""Clients of a simulated node that write, as real ones behave: they retry until they are answered.

A producer writes numbered values to one partition with acks=all and a sequence, up to five batches in
flight. Whatever happens to the connection or the node, it sends the same batches again, in order, until each
is acknowledged; then it knows where the values are.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.records.batch import Record, build_batch
from headrace.testing.machine import Surroundings
from headrace.transport.client_connection import ClientConnection, connect
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.schemas.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

T = TypeVar("T")

HOST: Final = "node"
PORT: Final = 9092
TOPIC: Final = "events"
# A request without an answer for so long is asked again on a new connection.
PATIENCE_MS: Final = 2_000
RETRY_S: Final = 0.1
# What every client keeps to, and a broker remembers of each producer.
IN_FLIGHT_MAX: Final = 5


class Link:
    """A connection to the node that is made again whenever it is lost."""

    def __init__(self, own: Surroundings, client_id: str, *, patience_ms: int = PATIENCE_MS) -> None:
        self.own = own
        self._patience_ms = patience_ms
        self._client_id = client_id
        self._memory = ReceiveMemory(own.loop)
        self._connection: ClientConnection | None = None

    async def connected(self) -> ClientConnection | None:
        """The connection, opened again where it broke; None where that fails just now."""
        if self._connection is None or not self._connection.is_open:
            try:
                self._connection = await connect(
                    self.own.loop,
                    self.own.network,
                    HOST,
                    PORT,
                    memory=self._memory,
                    client_id=self._client_id,
                    timeout_ms=self._patience_ms,
                )
            except OSError:
                return None
        return self._connection

    async def ask_all(self, messages: Sequence[object], version: int, response: type[T]) -> list[T | None]:
        """All of them at once, in this order, on one connection. None where there was no response, and
        nobody knows whether the request was carried out."""
        connection = await self.connected()
        if connection is None:
            await self.pause()
            return [None] * len(messages)
        futures = [
            connection.ask(message, version, response, timeout_ms=self._patience_ms) for message in messages
        ]
        replies: list[T | None] = []
        for future in futures:
            try:
                replies.append(await future)
            except OSError:
                replies.append(None)
        if None in replies:
            await self.pause()
        return replies

    async def ask(self, message: object, version: int, response: type[T]) -> T | None:
        return (await self.ask_all([message], version, response))[0]

    async def pause(self) -> None:
        await asyncio.sleep(RETRY_S * self.own.rng.uniform(0.5, 1.5))


async def create_topic(link: Link, partitions: int, configs: dict[str, str]) -> None:
    topic = CreatableTopic(
        TOPIC, partitions, 1, configs=[CreatableTopicConfig(name, value) for name, value in configs.items()]
    )
    while True:
        reply = await link.ask(CreateTopicsRequest([topic], 5_000), 5, CreateTopicsResponse)
        if reply is not None and reply.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        await link.pause()


@dataclass(frozen=True, slots=True)
class _Batch:
    values: list[bytes]
    data: bytes


class ScenarioProducer:
    """Writes to one partition; `acknowledged` is offset -> value, `sent` every value that may be there."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.acknowledged: dict[int, bytes] = {}
        self.sent: list[bytes] = []
        self.refusal: ErrorCode | None = None
        self.stopping = False
        self.is_done = False
        self._unanswered: list[_Batch] = []

    async def run(self, link: Link) -> None:
        producer_id, epoch = await self._begin(link)
        rng = link.own.rng
        while self.refusal is None and (self._unanswered or not self.stopping):
            wanted = 0 if self.stopping else rng.randint(1, IN_FLIGHT_MAX)
            if not self.acknowledged:
                # The first batch goes alone, as our producer's does: a broker takes any sequence for the
                # first of a producer it does not know, and would refuse the real first one after that.
                wanted = min(wanted, 1)
            while len(self._unanswered) < wanted:
                self._unanswered.append(self._next_batch(link.own, producer_id, epoch))
            await self._send_all(link)
            await asyncio.sleep(rng.random() * 0.1)
        self.is_done = True

    async def _begin(self, link: Link) -> tuple[int, int]:
        while True:
            reply = await link.ask(InitProducerIdRequest(None, 60_000), 3, InitProducerIdResponse)
            if reply is not None and reply.error_code == 0:
                return reply.producer_id, reply.producer_epoch
            await link.pause()

    def _next_batch(self, own: Surroundings, producer_id: int, epoch: int) -> _Batch:
        rng = own.rng
        values = [
            b"%d/%d/" % (self.partition, len(self.sent) + number) + rng.randbytes(rng.choice([1, 100, 900]))
            for number in range(rng.randint(1, 5))
        ]
        batch = build_batch(
            [Record(0, own.clock.now_ms(), None, value) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=len(self.sent),
        )
        self.sent += values
        return _Batch(values, bytes(batch))

    async def _send_all(self, link: Link) -> None:
        """Send whatever has no answer, in order; what gets none now stays for the next time."""
        requests = [self._request(batch) for batch in self._unanswered]
        replies = await link.ask_all(requests, 9, ProduceResponse)
        left: list[_Batch] = []
        for batch, reply in zip(self._unanswered, replies, strict=True):
            result = None if reply is None else reply.responses[0].partition_responses[0]
            if result is not None and result.error_code == 0:
                self.acknowledged |= {
                    result.base_offset + delta: value for delta, value in enumerate(batch.values)
                }
                continue
            code = None if result is None else ErrorCode(result.error_code)
            # Where an earlier batch was not taken, those behind it cannot be in order.
            follows_gap = bool(left) and code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if code is not None and code not in RETRIABLE and not follows_gap:
                self.refusal = code
            left.append(batch)
        self._unanswered = left
        if left:
            await link.pause()

    def _request(self, batch: _Batch) -> ProduceRequest:
        topic = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(self.partition, batch.data)])
        return ProduceRequest(None, -1, 1_000, [topic])
