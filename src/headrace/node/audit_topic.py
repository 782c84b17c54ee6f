"""The topic of the audit trail: each event is a record, written with acks=all to its leader, whoever it is.

Every node writes to one partition, so that its events stay in order; the topic is made with the cluster's
defaults where there is none. What cannot be written is tried again for a while, during which others wait, and
then counted as missing. A record whose answer was lost is written again: it may be there twice.
"""

import asyncio
import logging
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_LEADER
from headrace.controller.drivers.controller import Controller
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import TopicImage
from headrace.records.batch import Record, build_batch
from headrace.server.automatic_topics import automatic_topic
from headrace.server.broker_clients import BrokerClients
from headrace.server.environment import NodeEnvironment
from headrace.settings.broker_config import BrokerConfig
from headrace.telemetry.audit import AuditTrail
from headrace.transport.backoff import Backoff
from headrace.wire.schemas.create_topics import CreateTopicsRequest
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

logger = logging.getLogger(__name__)

GATHER_S: Final = 0.05
"""Events that come within this are written together."""
BATCH_BYTES: Final = 512 * 1024
"""Below max.message.bytes, whatever the names in the events are."""
ATTEMPTS_MAX: Final = 12
RETRY_MS: Final = (100, 5_000)
"""So that an election, or the restart of a node, is waited for: half a minute in all."""
CLOSING_S: Final = 2.0
CREATE_TIMEOUT_MS: Final = 30_000
ALL_IN_SYNC: Final = -1


class AuditTopic:
    """Writes a trail to a topic."""

    def __init__(
        self,
        name: str,
        trail: AuditTrail,
        *,
        config: BrokerConfig,
        image: MetadataImage,
        controller: Controller,
        world: NodeEnvironment,
    ) -> None:
        self._name = name
        self._trail = trail
        self._config = config
        self._image = image
        self._controller = controller
        self._world = world
        self._clients = BrokerClients("audit", config, image, world)
        self._backoff = Backoff(*RETRY_MS, world.rng)
        self._writing: asyncio.Task[None] | None = None

    def write_soon(self) -> None:
        """Lines wait."""
        if self._writing is None:
            self._writing = self._world.loop.create_task(self._write())

    async def close(self) -> None:
        """Write what is left, if that is soon done: the node it would go to may have stopped before."""
        writing = self._writing
        if writing is not None:
            await asyncio.wait([writing], timeout=CLOSING_S)
            writing.cancel()
        self._clients.stop()

    async def _write(self) -> None:
        lines: list[str] = []
        try:
            await asyncio.sleep(GATHER_S)
            while lines := self._trail.take():
                while lines:
                    batch = _first_batch(lines)
                    if not await self._publish(batch):
                        self._trail.lose(len(batch))
                    lines = lines[len(batch) :]
        finally:
            self._writing = None
            if lines:  # the node ends
                self._trail.lose(len(lines))

    async def _publish(self, lines: list[str]) -> bool:
        """Whether they are written."""
        now_ms = self._world.clock.now_ms()
        values = [line.encode("utf-8", "backslashreplace") for line in lines]
        batch = bytes(build_batch([Record(timestamp=now_ms, value=value) for value in values]))
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                await self._produce(batch)
                return True
            except (ConnectionError, ApiError, InvalidBytesError) as error:
                why = error
                await asyncio.sleep(self._backoff.wait_ms(attempt) / 1000)
        logger.error("the audit trail cannot be written to topic %s: %s", self._name, why)
        return False

    async def _produce(self, batch: bytes) -> None:
        topic = await self._topic()
        number = self._config.node_id % len(topic.partitions)
        leader = topic.partitions[number].leader
        if leader == NO_LEADER:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        data = TopicProduceData(topic.name, topic.id, [PartitionProduceData(number, batch)])
        request = ProduceRequest(
            acks=ALL_IN_SYNC, timeout_ms=self._config.int("request.timeout.ms"), topic_data=[data]
        )
        response = await self._clients.send(leader, request)
        (answer,) = response.responses[0].partition_responses
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), answer.error_message)

    async def _topic(self) -> TopicImage:
        found = self._image.topics_by_name.get(self._name)
        if found is None:
            wanted = automatic_topic(self._config, self._name)
            reply = await self._controller.ask(CreateTopicsRequest([wanted], CREATE_TIMEOUT_MS))
            (made,) = reply.topics
            if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise ApiError(ErrorCode(made.error_code), made.error_message)
            found = self._image.topics_by_name.get(self._name)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # the image is about to have it
        return found


def _first_batch(lines: list[str]) -> list[str]:
    """As many as go into one batch, and one at least."""
    size, count = 0, 0
    for line in lines:
        size += 4 * len(line)  # bytes of a character at most
        if count and size > BATCH_BYTES:
            break
        count += 1
    return lines[:count]
