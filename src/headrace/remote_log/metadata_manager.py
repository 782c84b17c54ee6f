"""TopicBasedRemoteLogMetadataManager: reads and writes `__remote_log_metadata`, as in Kafka.

The topic is created when a tiered partition is first held here. A record is written with acks=all to the
leader of its partition, again and again until that one acknowledged it or the writer's reason is gone; and it
takes effect, here as everywhere, when it is read back (`consumer_task`). Written twice it does no harm: see
`tiered.metadata_cache`.

`catch_up` is for whoever takes over from another: it asks the partition's leader for its end (a leader that
may not know it yet does not answer: KIP-207) and returns when everything below it was read. Everything that
was acknowledged to the other is known then.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_LEADER
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.controller.drivers.controller import Controller
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import TopicImage
from headrace.records.batch import Record, build_batch
from headrace.remote_log.consumer_task import (
    EARLIEST,
    LATEST,
    ConsumerTask,
    SegmentSearch,
    fetch_partition,
    fetch_request,
)
from headrace.server.automatic_topics import automatic_topic
from headrace.server.broker_clients import BrokerClients
from headrace.server.environment import NodeEnvironment
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.metadata_serde import encode_record, metadata_partition_of
from headrace.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from headrace.transport.backoff import Backoff
from headrace.wire.schemas.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

logger = logging.getLogger(__name__)

ALL_IN_SYNC: Final = -1
RETRY_MS: Final = (100, 5_000)
CREATE_TIMEOUT_MS: Final = 30_000
CREATE_AGAIN_S: Final = 5.0
LOOK_S: Final = 1.0
SOON_S: Final = 0.02


class TopicBasedRemoteLogMetadataManager:
    """`held` tells which tiered partitions this broker has; `logs` what is known of all that it reads."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        controller: Controller,
        logs: RemotePartitionMetadataStore,
        world: NodeEnvironment,
        *,
        held: Callable[[], Iterable[TopicIdPartition]],
        on_change: Callable[[TopicIdPartition], None],
    ) -> None:
        self.logs = logs
        self._config = config
        self._image = image
        self._controller = controller
        self._held = held
        self._on_change = on_change
        self._loop = world.loop
        self._clock = world.clock
        self._backoff = Backoff(*RETRY_MS, world.rng)
        self._read_clients = BrokerClients("remote-metadata", config, image, world)
        self._write_clients = BrokerClients("remote-metadata-writes", config, image, world)
        self.consumer = ConsumerTask(
            image, self.logs, self._read_clients, loop=world.loop, on_change=on_change
        )
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._creating_until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    # -- running ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._look_again()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._loading.values():
            task.cancel()
        self.consumer.stop()
        self._read_clients.stop()
        self._write_clients.stop()

    def look_soon(self) -> None:
        """The cluster has changed; many changes may follow each other."""
        if self._timer is not None and not self._stopped and self._timer.when() > self._loop.time() + SOON_S:
            self._timer.cancel()
            self._timer = self._loop.call_later(SOON_S, self._look_again)

    def _look_again(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look_again)
        self.look()

    def look(self) -> None:
        """Read what is needed now: leaders, partitions held and settings may have changed."""
        if self._stopped:
            return
        held = list(self._held())
        topic = self.consumer.topic
        if topic is None:
            if held:
                self._create_topic()
            return
        count = len(topic.partitions)
        homes = {partition: metadata_partition_of(partition, count) for partition in held}
        led = {
            number
            for number, partition in topic.partitions.items()
            if partition.leader == self._config.node_id
        }
        self.consumer.assign(set(homes.values()) | led)
        waiting = {home for partition, home in homes.items() if self.logs.get(partition) is None}
        for number in waiting - self._loading.keys():
            self._loading[number] = self._loop.create_task(self._load(number))

    def partitions_led_here(self) -> set[int]:
        """The partitions of the topic that this broker leads: it looks after what topics leave behind."""
        topic = self.consumer.topic
        if topic is None:
            return set()
        return {n for n, partition in topic.partitions.items() if partition.leader == self._config.node_id}

    def partition_of(self, partition: TopicIdPartition) -> int | None:
        topic = self.consumer.topic
        return None if topic is None else metadata_partition_of(partition, len(topic.partitions))

    def _create_topic(self) -> None:
        if self._loop.time() < self._creating_until_s:
            return
        self._creating_until_s = self._loop.time() + CREATE_AGAIN_S
        wanted = automatic_topic(self._config, REMOTE_LOG_TOPIC, brokers=len(self._image.brokers))
        asked = self._controller.ask(CreateTopicsRequest([wanted], CREATE_TIMEOUT_MS))
        asked.add_done_callback(_log_refusal)

    async def _load(self, number: int) -> None:
        """Everything that was written before this broker came to hold a partition is known."""
        try:
            if await self._catch_up(number, lambda: number in self.consumer.positions):
                count = len(self._require_topic().partitions)
                for partition in self._held():
                    if metadata_partition_of(partition, count) == number:
                        self.logs.load(partition)
                        self._on_change(partition)
        finally:
            del self._loading[number]

    # -- asking and writing ----------------------------------------------------------------------------------

    async def catch_up(self, partition: TopicIdPartition, is_wanted: Callable[[], bool]) -> bool:
        """Everything that was acknowledged about a partition before this call is known. False: nobody wants
        to know any more."""
        home = self.partition_of(partition)
        return home is not None and await self._catch_up(home, is_wanted)

    async def _catch_up(self, number: int, is_wanted: Callable[[], bool]) -> bool:
        failures = 0
        while is_wanted() and not self._stopped:
            try:
                end = await self.consumer.list_offset(number, LATEST, self._write_clients)
            except (ConnectionError, ApiError, InvalidBytesError) as error:
                failures += 1
                logger.debug("the end of %s-%d is not known: %s", REMOTE_LOG_TOPIC, number, error)
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
                continue
            return await self._read_to(number, end, is_wanted)
        return False

    async def search_for(
        self, partition: TopicIdPartition, ids: Collection[str], is_wanted: Callable[[], bool]
    ) -> dict[str, bool] | None:
        """Which of these segments of a partition were ever mentioned, and whether their removal was told.
        None: nobody wants to know any more.
        """
        number, search, failures = self.partition_of(partition), SegmentSearch(ids), 0
        while number is not None and is_wanted() and not self._stopped:
            try:
                search.begin(await self.consumer.list_offset(number, EARLIEST, self._write_clients))
                end = await self.consumer.list_offset(number, LATEST, self._write_clients)
                while search.position < end and is_wanted():
                    leader, epoch = self.consumer.leader_of(number)
                    asked = [fetch_partition(number, epoch, search.position)]
                    request = fetch_request(self._require_topic(), asked, wait_ms=0)
                    error_code = await self._write_clients.send(leader, request, read=search.take)
                    if error_code:
                        raise ApiError(error_code)
                return search.found if search.position >= end else None
            except (ConnectionError, ApiError, InvalidBytesError) as error:
                failures += 1
                logger.info("%s-%d cannot be searched: %s", REMOTE_LOG_TOPIC, number, error)
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
        return None

    async def publish(
        self, record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate, is_wanted: Callable[[], bool]
    ) -> bool:
        """Write a record, and return when it was read back. False: it is not known whether it was written,
        because nobody wanted it any more."""
        timestamp = self._clock.now_ms()
        batch = build_batch([Record(timestamp=timestamp, value=encode_record(record))])
        number = self.partition_of(record.partition)
        failures = 0
        while number is not None and is_wanted() and not self._stopped:
            try:
                offset = await self._produce(number, bytes(batch))
            except (ConnectionError, ApiError, InvalidBytesError) as error:
                failures += 1
                logger.info("%s cannot be written to %s-%d: %s", record, REMOTE_LOG_TOPIC, number, error)
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
                continue
            return await self._read_to(number, offset + 1, is_wanted)
        return False

    async def _produce(self, number: int, batch: bytes) -> int:
        """The record's offset."""
        leader, _ = self.consumer.leader_of(number)
        if leader == NO_LEADER:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        topic = self._require_topic()
        data = TopicProduceData(topic.name, topic.id, [PartitionProduceData(number, batch)])
        request = ProduceRequest(
            acks=ALL_IN_SYNC, timeout_ms=self._config.int("request.timeout.ms"), topic_data=[data]
        )
        response = await self._write_clients.send(leader, request)
        (answer,) = response.responses[0].partition_responses
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), answer.error_message)
        offset: int = answer.base_offset
        return offset

    async def _read_to(self, number: int, offset: int, is_wanted: Callable[[], bool]) -> bool:
        reading = self.consumer.read_to(number, offset)
        while not reading.done():
            await asyncio.wait([reading], timeout=LOOK_S)
            if not reading.done() and not is_wanted():
                reading.cancel()
                return False
        return reading.result()

    def _require_topic(self) -> TopicImage:
        topic = self.consumer.topic
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {REMOTE_LOG_TOPIC}")
        return topic


def _log_refusal(asked: "asyncio.Future[CreateTopicsResponse]") -> None:
    if asked.cancelled():
        return
    error = asked.exception()
    if error is not None:
        logger.warning("%s cannot be made yet: %s", REMOTE_LOG_TOPIC, error)
        return
    for topic in asked.result().topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.error("%s cannot be made: %s", REMOTE_LOG_TOPIC, topic.error_message)
