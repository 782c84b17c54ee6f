"""DeadLetterQueue: has the letters of given-up records written, and then lets the records go (KIP-1191).

A share partition whose window has ranges in Archiving gets a task that takes them from the front: it reads
their records, writes a batch of letters to the leader of the queue's partition, and has the ranges archived.
State 3 is in the state that is kept, so whoever leads next goes on; a letter whose answer was lost is there
twice. While the queue cannot be written to, the task tries again, and the records stay in the window.

Where the queue must not be used at all (its name, or a topic that does not allow it) there is no letter, as
in Kafka, and the log says so.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from headrace.base.chunks import FileSlice
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_LEADER
from headrace.controller.drivers.controller import Controller
from headrace.coordinators.group.share.share_group_config import ShareGroupConfigManager
from headrace.metadata.features import DEAD_LETTERS_FROM, SHARE_VERSION
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import TopicImage
from headrace.records.batch import Record, batches, build_batch, read_records
from headrace.server.automatic_topics import automatic_topic
from headrace.server.broker_clients import BrokerClients
from headrace.server.environment import NodeEnvironment
from headrace.server.share.dead_letters import DeadLetterCause, letter_of, that_fit
from headrace.server.share.in_flight_batch import InFlightBatch, RecordState
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig, resolve_topic_config
from headrace.transport.backoff import Backoff
from headrace.wire.schemas.create_topics import CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from headrace.replication.partition import Partition
    from headrace.server.share.share_partition_manager import LedSharePartition, SharePartitionManager

logger = logging.getLogger(__name__)

RETRY_MS: Final = (100, 10_000)
CREATE_TIMEOUT_MS: Final = 30_000
ALL_IN_SYNC: Final = -1
READ_BYTES: Final = 1 << 20
"""Read of the log at a time: one batch at least."""
LETTERS_MAX: Final = 500
"""In one batch: what an event loop makes without anybody noticing."""
HEADROOM: Final = 0.9
"""Of max.message.bytes: what letters take is reckoned, not measured."""


class DeadLetterQueue:
    """The letters of all share partitions that this node leads."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        world: NodeEnvironment,
        *,
        controller: Controller,
        configs: ShareGroupConfigManager,
    ) -> None:
        self._config = config
        self._image = image
        self._world = world
        self._controller = controller
        self._configs = configs
        self._clients = BrokerClients("dead-letters", config, image, world)
        self._backoff = Backoff(*RETRY_MS, world.rng)
        self._tasks: dict[LedSharePartition, asyncio.Task[None]] = {}

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._clients.stop()

    def given_up(self, group_id: str) -> RecordState:
        """What becomes of records that a group gives up."""
        has_queue = bool(self._configs.of(group_id).dead_letter_topic)
        is_offered = self._image.features.get(SHARE_VERSION, 0) >= DEAD_LETTERS_FROM
        return RecordState.ARCHIVING if has_queue and is_offered else RecordState.ARCHIVED

    def look_at(self, manager: SharePartitionManager, led: LedSharePartition) -> None:
        """Records of it may have been given up."""
        if led not in self._tasks and led.core.first_archiving() is not None:
            self._tasks[led] = self._world.loop.create_task(self._write_all(manager, led))

    async def _write_all(self, manager: SharePartitionManager, led: LedSharePartition) -> None:
        failures = 0
        try:
            while not led.is_fenced and (dead := led.core.first_archiving()) is not None:
                try:
                    await self._write_some(manager, led, dead)
                    failures = 0
                except (ConnectionError, ApiError, InvalidBytesError, OSError) as error:
                    failures += 1
                    logger.warning(
                        "share partition %s: dead letters from offset %d on cannot be written yet: %s",
                        led.core.key,
                        dead.first,
                        error or type(error).__name__,
                    )
                    await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
        finally:
            del self._tasks[led]

    async def _write_some(
        self, manager: SharePartitionManager, led: LedSharePartition, dead: InFlightBatch
    ) -> None:
        group_id, first, last = led.core.key.group_id, dead.first, dead.last
        settings = self._configs.of(group_id)
        name = settings.dead_letter_topic
        refusal = self._why_not(name)
        if refusal is not None:
            logger.error("%s: records %d to %d get no dead letter: %s", led.core.key, first, last, refusal)
        else:
            topic = await self._topic(name)
            records, last = _read(led.partition, first, last)
            cause = DeadLetterCause(
                *led.partition.topic_partition,
                group_id,
                dead.delivery_count,
                dead.was_rejected,
                dead.member_id,
            )
            now_ms = self._world.clock.now_ms()
            copies = settings.copies_dead_records
            letters = [letter_of(each, cause, now_ms=now_ms, copies=copies) for each in records]
            fitting = that_fit(letters, int(self._settings_of(name).max_message_bytes * HEADROOM))
            if len(fitting) < len(records):
                last = records[len(fitting) - 1].offset
            if fitting:
                await self._produce(topic, led.core.key.partition, fitting)
            manager.metrics.dead_letters += len(fitting)
        await manager.archive(led, first, last)

    def _why_not(self, name: str) -> str | None:
        """Why a topic must not get letters."""
        prefix = self._config.str("errors.deadletterqueue.topic.name.prefix")
        if not name:
            return "the group has no errors.deadletterqueue.topic.name any more"
        if name.startswith("__"):
            return f"{name} is a name of the system's own topics"
        if not name.startswith(prefix):
            return f"{name} does not begin with {prefix} (errors.deadletterqueue.topic.name.prefix)"
        if name in self._image.topics_by_name:
            may = self._settings_of(name).errors_deadletterqueue_group_enable
            return None if may else f"{name} has not set errors.deadletterqueue.group.enable=true"
        if not self._config.bool("errors.deadletterqueue.auto.create.topics.enable"):
            return f"there is no topic {name}, and errors.deadletterqueue.auto.create.topics.enable=false"
        return None

    def _settings_of(self, name: str) -> TopicConfig:
        return resolve_topic_config(self._config, self._image.topic_config_of(name))

    async def _topic(self, name: str) -> TopicImage:
        found = self._image.topics_by_name.get(name)
        if found is not None:
            return found
        wanted = automatic_topic(self._config, name)
        wanted.configs = [
            CreatableTopicConfig(name="errors.deadletterqueue.group.enable", value="true"),
            CreatableTopicConfig(name="message.timestamp.type", value="CreateTime"),
        ]
        reply = await self._controller.ask(CreateTopicsRequest([wanted], CREATE_TIMEOUT_MS))
        (made,) = reply.topics
        if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ApiError(ErrorCode(made.error_code), made.error_message)
        found = self._image.topics_by_name.get(name)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # the image is about to have it
        return found

    async def _produce(self, topic: TopicImage, partition: int, letters: list[Record]) -> None:
        number = partition % len(topic.partitions)
        leader = topic.partitions[number].leader
        if leader == NO_LEADER:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        data = TopicProduceData(
            topic.name, topic.id, [PartitionProduceData(number, bytes(build_batch(letters)))]
        )
        timeout_ms = self._config.int("request.timeout.ms")
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=timeout_ms, topic_data=[data])
        response = await self._clients.send(leader, request)
        (answer,) = response.responses[0].partition_responses
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), answer.error_message)


def _read(partition: Partition, first: int, last: int) -> tuple[list[Record], int]:
    """The first records of a range, and up to which offset they are all there are.

    What is in the remote store alone is not fetched from there: such letters only say where the record is.
    """
    log = partition.leading_log()
    last = min(last, first + LETTERS_MAX - 1)
    if first < log.local_start_offset:
        last = min(last, log.local_start_offset - 1)
        return [Record(offset) for offset in range(first, last + 1)], last
    if last >= log.high_watermark:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)  # it has just become the leader
    chunk = log.read(first, max_bytes=READ_BYTES, max_offset=log.high_watermark).chunk
    data = chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk)
    found: list[Record] = []
    read_to = first - 1
    for position, header in batches(data):
        read_to = header.last_offset
        if header.base_offset <= last and header.record_count:
            until_last = takewhile(lambda each: each.offset <= last, read_records(data, position))
            found += [each for each in until_last if each.offset >= first]
        if read_to >= last:
            break
    if read_to < first:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return found, min(last, read_to)
