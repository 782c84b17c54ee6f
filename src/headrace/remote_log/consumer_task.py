"""ConsumerTask: reads those partitions of `__remote_log_metadata` that this broker needs.

One Fetch loop for each broker that leads any of them, over a connection of its own, so that one long poll
serves all the partitions that lie there. A partition is read from its start when it is first needed, also
after a restart: its records are few, and nothing about remote segments is kept on this broker's disk. What
nobody needs any more is forgotten.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_LEADER, uuid_text
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import TopicImage
from headrace.records.batch import batches, read_records
from headrace.server.broker_clients import BrokerClients
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.metadata_serde import decode_record, metadata_partition_of
from headrace.tiered.segment_metadata import RemoteLogSegmentState, TopicIdPartition
from headrace.wire.framing import read_response
from headrace.wire.record_frames import UnknownRecordError
from headrace.wire.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

logger = logging.getLogger(__name__)

WAIT_MS: Final = 500
PARTITION_BYTES: Final = 1 << 20
PAUSE_S: Final = 0.1
"""After an answer that brought nothing but an error."""

NO_SESSION: Final = -1
CONSUMER: Final = -1
LATEST: Final = -1
EARLIEST: Final = -2
ANSWER_MS: Final = 5_000

_GOING: Final = (RemoteLogSegmentState.DELETE_STARTED, RemoteLogSegmentState.DELETE_FINISHED)


class ConsumerTask:
    """How far each partition of the topic has been read, and who waits for more.

    `on_change` hears of every partition whose segments changed.
    """

    def __init__(
        self,
        image: MetadataImage,
        logs: RemotePartitionMetadataStore,
        clients: BrokerClients,
        *,
        loop: asyncio.AbstractEventLoop,
        on_change: Callable[[TopicIdPartition], None],
    ) -> None:
        self._image = image
        self._logs = logs
        self._clients = clients
        self._loop = loop
        self._on_change = on_change
        self.positions: dict[int, int] = {}
        self._waiters: dict[int, list[tuple[int, asyncio.Future[bool]]]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._out_of_range: set[int] = set()
        self._stopped = False

    @property
    def topic(self) -> TopicImage | None:
        return self._image.topics_by_name.get(REMOTE_LOG_TOPIC)

    def leader_of(self, number: int) -> tuple[int, int]:
        """(leader, its epoch) of a partition of the topic; NO_LEADER where there is none."""
        topic = self.topic
        partition = None if topic is None else topic.partitions.get(number)
        return (NO_LEADER, -1) if partition is None else (partition.leader, partition.leader_epoch)

    def assign(self, numbers: set[int]) -> None:
        """Read these partitions of the topic, and no others."""
        for number in self.positions.keys() - numbers:
            self._forget(number)
            del self.positions[number]
        for number in numbers - self.positions.keys():
            self.positions[number] = 0
        leaders = {self.leader_of(number)[0] for number in self.positions} - {NO_LEADER}
        for leader in leaders - self._tasks.keys():
            if not self._stopped:
                self._tasks[leader] = self._loop.create_task(self._read_from(leader))

    def stop(self) -> None:
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()
        for number in list(self._waiters):
            self._wake(number, gone=True)

    def read_to(self, number: int, offset: int) -> "asyncio.Future[bool]":
        """Done when everything below `offset` was read; False where the partition is no longer read."""
        waiting: asyncio.Future[bool] = self._loop.create_future()
        position = self.positions.get(number)
        if position is None or self._stopped:
            waiting.set_result(False)
        elif position >= offset:
            waiting.set_result(True)
        else:
            self._waiters.setdefault(number, []).append((offset, waiting))
        return waiting

    def _forget(self, number: int) -> None:
        topic = self.topic
        count = 0 if topic is None else len(topic.partitions)
        for partition in self._logs.partitions():
            if not count or metadata_partition_of(partition, count) == number:
                self._logs.unload(partition)
        self._wake(number, gone=True)

    def _wake(self, number: int, *, gone: bool = False) -> None:
        waiters = self._waiters.pop(number, [])
        position = self.positions.get(number, 0)
        left = []
        for offset, waiting in waiters:
            if waiting.done():
                continue
            if gone or position >= offset:
                waiting.set_result(not gone)
            else:
                left.append((offset, waiting))
        if left:
            self._waiters[number] = left

    # -- fetching --------------------------------------------------------------------------------------------

    async def _read_from(self, leader: int) -> None:
        try:
            while not self._stopped:
                request = self._request(leader)
                if request is None:
                    return
                try:
                    advanced = await self._clients.send(leader, request, read=self._take)
                    await self._reset_positions()
                except (ConnectionError, ApiError, InvalidBytesError) as error:
                    logger.debug("remote log metadata cannot be read from broker %d: %s", leader, error)
                    advanced = False
                if not advanced:
                    await asyncio.sleep(PAUSE_S)
        finally:
            del self._tasks[leader]

    async def _reset_positions(self) -> None:
        """Go to the start of partitions that do not have the offset to read on from."""
        while self._out_of_range:
            number = self._out_of_range.pop()
            start = await self.list_offset(number, EARLIEST, self._clients)
            if number not in self.positions:
                continue
            logger.error(
                "%s-%d starts at offset %d, and was to be read from %d on: what lies between is lost, or what"
                " was read before. Its retention.ms must be longer than that of every tiered topic",
                REMOTE_LOG_TOPIC,
                number,
                start,
                self.positions[number],
            )
            self._forget(number)
            self.positions[number] = start

    async def list_offset(self, number: int, timestamp: int, clients: BrokerClients) -> int:
        """Where a partition of the topic starts (EARLIEST) or ends (LATEST), as its leader says."""
        leader, epoch = self.leader_of(number)
        if leader == NO_LEADER:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        asked = ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=CONSUMER, topics=[ListOffsetsTopic(REMOTE_LOG_TOPIC, [asked])], timeout_ms=ANSWER_MS
        )
        response = await clients.send(leader, request)
        (found,) = response.topics[0].partitions
        if found.error_code:
            raise ApiError(ErrorCode(found.error_code))
        offset: int = found.offset
        return offset

    def _request(self, leader: int) -> FetchRequest | None:
        topic = self.topic
        if topic is None:
            return None
        partitions = []
        for number, position in self.positions.items():
            found, epoch = self.leader_of(number)
            if found == leader:
                partitions.append(fetch_partition(number, epoch, position))
        return fetch_request(topic, partitions, wait_ms=WAIT_MS) if partitions else None

    def _take(self, frame: memoryview, version: int) -> bool:
        """Take an answer in; False where it brought an error."""
        response = read_response(FetchResponse, version, frame)
        if response.error_code:
            return False
        is_well = True
        for topic in response.responses:
            for data in topic.partitions:
                if data.partition_index in self.positions:
                    is_well = self._take_partition(data) and is_well
        return is_well

    def _take_partition(self, data: PartitionData) -> bool:
        number = data.partition_index
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.add(number)
            return False
        if data.error_code:
            return False
        for values, following in values_from(data, self.positions[number]):
            for value in values:
                self._apply(number, value)
            self.positions[number] = following
        self._wake(number)
        return True

    def _apply(self, number: int, value: bytes) -> None:
        try:
            record = decode_record(value)
        except UnknownRecordError as error:
            logger.warning("%s-%d: %s", REMOTE_LOG_TOPIC, number, error)
            return
        except InvalidBytesError as error:
            logger.error("a record of %s-%d cannot be read: %s", REMOTE_LOG_TOPIC, number, error)
            return
        if record is not None:
            self._logs.apply(record)
            self._on_change(record.partition)


def fetch_partition(number: int, epoch: int, position: int) -> FetchPartition:
    return FetchPartition(
        partition=number,
        current_leader_epoch=epoch,
        fetch_offset=position,
        partition_max_bytes=PARTITION_BYTES,
    )


def fetch_request(topic: TopicImage, partitions: list[FetchPartition], *, wait_ms: int) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_epoch=NO_SESSION,
        topics=[FetchTopic(topic=topic.name, topic_id=topic.id, partitions=partitions)],
    )


def values_from(data: PartitionData, position: int) -> Iterator[tuple[list[bytes], int]]:
    """What was fetched from `position` on, batch by batch: its records' values, and where the next begins."""
    for chunk in _chunks(data.records):
        for at, header in batches(chunk):
            if header.next_offset > position:
                records = () if header.is_control else read_records(chunk, at)
                yield (
                    [r.value for r in records if r.offset >= position and r.value is not None],
                    header.next_offset,
                )


def _chunks(records: Any) -> list[Any]:
    if records is None:
        return []
    return records if isinstance(records, list) else [records]


class SegmentSearch:
    """What `__remote_log_metadata` ever said of certain segments, read again from a partition's start.

    The cache forgets a segment that was removed, or else it would know ever more of them. So when there are
    objects of a segment that it does not know, the records themselves are asked: was its removal told, or is
    it never mentioned? Then records were lost. That is seldom asked, and costs as much as a start.

    `found` says whether the removal of a segment was told, by its id as it stands in the names of objects.
    Those that are missing there were never mentioned.
    """

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = ids
        self.found: dict[str, bool] = {}
        self.position = 0

    def begin(self, start: int) -> None:
        """Read from the partition's start, or go on where that is behind."""
        self.position = max(self.position, start)

    def take(self, frame: memoryview, version: int) -> ErrorCode:
        """Take an answer in; the error that it brought."""
        response = read_response(FetchResponse, version, frame)
        if response.error_code:
            return ErrorCode(response.error_code)
        (data,) = response.responses[0].partitions
        for values, following in values_from(data, self.position):
            for value in values:
                self._look_at(value)
            self.position = following
        return ErrorCode(data.error_code)

    def _look_at(self, value: bytes) -> None:
        try:
            record = decode_record(value)
        except (UnknownRecordError, InvalidBytesError):
            return  # who reads the topic all the time has said so
        if record is not None and (name := uuid_text(record.segment_id)) in self._ids:
            self.found[name] = self.found.get(name, False) or record.state in _GOING
