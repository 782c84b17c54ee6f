"""Clients of a simulated node, as real ones behave: they retry until they are answered.

A producer writes numbered values to one partition, one batch at a time, with acks=all and a sequence.
Whatever happens to the connection or the node, it sends the same batch again until that is acknowledged;
then it knows where the values are. A reader reads a partition from its start and takes nothing whose CRC
does not match.
"""

import asyncio
from typing import Any, Final, TypeVar

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.records.batch import Record, batches, build_batch, crc_matches, read_records
from headrace.testing.machine import Surroundings
from headrace.transport.client_connection import ClientConnection, connect
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
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
READ_BYTES: Final = 1 << 16


class DamageSeenError(Exception):
    """A batch did not match its CRC, or was none: the reader refuses it, as every client does."""


class Link:
    """A connection to the node that is made again whenever it is lost."""

    def __init__(self, own: Surroundings, client_id: str, *, patience_ms: int = PATIENCE_MS) -> None:
        self.own = own
        self._patience_ms = patience_ms
        self._client_id = client_id
        self._memory = ReceiveMemory(own.loop)
        self._connection: ClientConnection | None = None

    async def ask(self, message: object, version: int, response: type[T]) -> T | None:
        """The response; None where there was none, and nobody knows whether the request was carried out."""
        try:
            if self._connection is None or not self._connection.is_open:
                self._connection = await connect(
                    self.own.loop,
                    self.own.network,
                    HOST,
                    PORT,
                    memory=self._memory,
                    client_id=self._client_id,
                    timeout_ms=self._patience_ms,
                )
            return await self._connection.ask(message, version, response, timeout_ms=self._patience_ms)
        except OSError:
            await asyncio.sleep(RETRY_S * self.own.rng.uniform(0.5, 1.5))
            return None

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


class Producer:
    """Writes to one partition; `acknowledged` is offset -> value, `sent` every value that may be there."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.acknowledged: dict[int, bytes] = {}
        self.sent: list[bytes] = []
        self.refusal: ErrorCode | None = None
        self.stopping = False
        self.is_done = False

    async def run(self, link: Link) -> None:
        producer_id, epoch = await self._begin(link)
        sequence = 0
        while not self.stopping and self.refusal is None:
            rng = link.own.rng
            values = [
                b"%d/%d/" % (self.partition, len(self.sent) + number)
                + rng.randbytes(rng.choice([1, 100, 900]))
                for number in range(rng.randint(1, 5))
            ]
            self.sent += values
            batch = build_batch(
                [Record(0, link.own.clock.now_ms(), None, value) for value in values],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            offset = await self._send(link, bytes(batch))
            if offset is None:
                break
            self.acknowledged |= {offset + delta: value for delta, value in enumerate(values)}
            sequence += len(values)
            await asyncio.sleep(rng.random() * 0.05)
        self.is_done = True

    async def _begin(self, link: Link) -> tuple[int, int]:
        while True:
            reply = await link.ask(InitProducerIdRequest(None, 60_000), 3, InitProducerIdResponse)
            if reply is not None and reply.error_code == 0:
                return reply.producer_id, reply.producer_epoch
            await link.pause()

    async def _send(self, link: Link, batch: bytes) -> int | None:
        """Send until it is acknowledged; None where it is refused for good."""
        topic = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(self.partition, batch)])
        while True:
            request = ProduceRequest(None, -1, 1_000, [topic])
            reply = await link.ask(request, 9, ProduceResponse)
            if reply is None:
                continue
            result = reply.responses[0].partition_responses[0]
            if result.error_code == 0:
                return result.base_offset
            if result.error_code not in RETRIABLE:
                self.refusal = ErrorCode(result.error_code)
                return None
            await link.pause()


async def read_partition(link: Link, partition: int) -> list[tuple[int, bytes]]:
    """(offset, value) of everything from the start to the high watermark; DamageSeenError at a bad batch."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    while True:
        part = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=READ_BYTES)
        request.topics = [FetchTopic(TOPIC, partitions=[part])]
        reply = await link.ask(request, 12, FetchResponse)
        data = None if reply is None or not reply.responses else reply.responses[0].partitions[0]
        if data is None or data.error_code in RETRIABLE - {ErrorCode.CORRUPT_MESSAGE}:
            await link.pause()
            continue
        if data.error_code:
            raise DamageSeenError(ErrorCode(data.error_code).name)
        records = _records_of(data.records)
        found += [each for each in records if each[0] >= offset]
        if not records or found[-1][0] + 1 >= data.high_watermark:
            return found
        offset = found[-1][0] + 1


def _records_of(data: Any) -> list[tuple[int, bytes]]:
    if not data:
        return []
    records = []
    try:
        for at, header in batches(data):
            if not crc_matches(data, at, header):
                raise DamageSeenError(f"the batch of offset {header.base_offset}")
            records += [(record.offset, record.value or b"") for record in read_records(data, at)]
    except InvalidBytesError as error:
        raise DamageSeenError(str(error)) from error
    return records
