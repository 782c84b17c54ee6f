"""What a broker keeps for records that are handed out and not answered, for `bench.share`.

One member, on a raw socket with headrace's codecs, takes records and answers none until it holds so many; a
client library would keep the records too. Then it accepts every second one, each by itself, which is the
most that the share state topic can have to say of them.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Final

from bench.brokers import Broker
from bench.topic_wire import Connections, count
from headrace.records.batch import Record, build_batch
from headrace.wire.schemas import share_acknowledge, share_fetch
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.wire.schemas.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.wire.schemas.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from headrace.wire.schemas.share_fetch import AcknowledgeType, ShareFetchRequest, ShareFetchResponse
from headrace.wire.schemas.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

Figures = dict[str, float]

LOCKS: Final = 10_000
"""Records of one partition that may be held: the most that the setting allows."""
SETTINGS: Final = {
    "group.share.max.partition.max.record.locks": str(LOCKS),
    "group.share.partition.max.record.locks": str(LOCKS),
    "group.share.max.record.lock.duration.ms": "3600000",
    "group.share.record.lock.duration.ms": "3600000",
}
BATCH_RECORDS: Final = 100
VALUE: Final = b"x" * 100
GROUP: Final = "holder"
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
GROUP_RESOURCE: Final = 32
LONGEST_S: Final = 120.0
PAUSE_S: Final = 0.1
FETCH_BYTES: Final = 50 << 20
PARTITIONS_A_REQUEST: Final = 10


def held(broker: Broker, records: int) -> Figures:
    """Memory and share state before, while so many records are held, and when half of them are accepted."""
    holder = _Holder(broker, records // LOCKS)
    with contextlib.closing(holder.connections):
        holder.fill()
        holder.join()
        idle_mb = broker.rss_mb()
        before = broker.cpu_s()
        taken = holder.take()
        taking_s = broker.cpu_s() - before
        held_mb = broker.rss_mb()
        before = broker.cpu_s()
        holder.accept_every_second()
        accepting_s = broker.cpu_s() - before
        return {
            "held": taken,
            "held_rss_mb": held_mb,
            "grown_mb": held_mb - idle_mb,
            "acquire_cpu_s": taking_s,
            "half_rss_mb": broker.rss_mb(),
            "accept_cpu_s": accepting_s,
            "state_mb": state_bytes(broker) / 1e6,
        }


def state_bytes(broker: Broker) -> int:
    """What the logs of the share state topic hold."""
    logs = (broker.folder / "data").glob("__share_group_state-*/*.log")
    return sum(path.stat().st_size for path in logs)


class _Holder:
    """The member, and the topic it takes from."""

    def __init__(self, broker: Broker, partitions: int) -> None:
        self.connections = Connections(broker.address)
        self._partitions = partitions
        self._epoch = 0
        self._session = 0
        self._topic_id = b""

    def fill(self) -> None:
        """Every partition with as many records as can be held of it."""
        self.connections.create("held", self._partitions, 1)
        self._until(self._served)
        (self._topic_id,) = {
            each.topic_id for each in self.connections.metadata().topics if each.name == "held"
        }
        now = int(time.time() * 1000)
        batch = bytes(build_batch([Record(number, now, None, VALUE, ()) for number in range(BATCH_RECORDS)]))
        data = [PartitionProduceData(index, batch) for index in range(self._partitions)]
        request = ProduceRequest(
            acks=1, timeout_ms=30_000, topic_data=[TopicProduceData("held", partition_data=data)]
        )
        for _ in range(LOCKS // BATCH_RECORDS):
            answer = self.connections.ask(request, ProduceResponse, 9)
            wrong = [each for each in answer.responses[0].partition_responses if each.error_code]
            if wrong:
                raise RuntimeError(f"{len(wrong)} partitions took no records: {wrong[0]}")

    def _served(self) -> int:
        """How many partitions have a leader that knows of it."""
        led = self.connections.led()
        ours = {node: {"held": topics["held"]} for node, topics in led.items() if "held" in topics}
        return count(ours) - count(self.connections.unserved(ours))

    def join(self) -> None:
        """Be the only member of a group that begins with the first record; wait for all partitions."""
        earliest = AlterableConfig("share.auto.offset.reset", 0, "earliest")
        asked = AlterConfigsResource(GROUP_RESOURCE, GROUP, [earliest])
        self.connections.ask(IncrementalAlterConfigsRequest([asked]), IncrementalAlterConfigsResponse, 1)
        find = FindCoordinatorRequest("", 0, [GROUP])
        self._until(
            lambda: (
                self._partitions
                * (not self.connections.ask(find, FindCoordinatorResponse, 4).coordinators[0].error_code)
            )
        )
        self._until(self._beat)

    def _beat(self) -> int:
        """A heartbeat; how many partitions it assigned."""
        topics = None if self._epoch else ["held"]
        request = ShareGroupHeartbeatRequest(GROUP, MEMBER, self._epoch, None, topics)
        answer = self.connections.ask(request, ShareGroupHeartbeatResponse, 1)
        if not answer.error_code:
            self._epoch = answer.member_epoch
        assigned = answer.assignment.topic_partitions if answer.assignment else []
        return sum(len(each.partitions) for each in assigned)

    def take(self) -> int:
        """Fetch without answering until all is held; how many records that are."""
        taken, beaten = 0, time.monotonic()
        deadline = beaten + LONGEST_S
        while taken < self._partitions * LOCKS and time.monotonic() < deadline:
            taken += self._fetch()
            if time.monotonic() > beaten + 1:
                beaten = time.monotonic()
                self._beat()
        return taken

    def _fetch(self) -> int:
        partitions = [share_fetch.FetchPartition(index) for index in range(self._partitions)]
        request = ShareFetchRequest(
            GROUP,
            MEMBER,
            self._session,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            max_records=self._partitions * LOCKS,
            batch_size=500,
            topics=[] if self._session else [share_fetch.FetchTopic(self._topic_id, partitions)],
        )
        answer = self.connections.ask(request, ShareFetchResponse, 2)
        if answer.error_code:
            time.sleep(PAUSE_S)
            return 0
        self._session += 1
        return sum(
            each.last_offset - each.first_offset + 1
            for topic in answer.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        )

    def accept_every_second(self) -> None:
        types = [int(AcknowledgeType.ACCEPT)]
        batches = [
            share_acknowledge.AcknowledgementBatch(offset, offset, types) for offset in range(0, LOCKS, 2)
        ]
        for first in range(0, self._partitions, PARTITIONS_A_REQUEST):
            last = min(first + PARTITIONS_A_REQUEST, self._partitions)
            asked = [share_acknowledge.AcknowledgePartition(index, batches) for index in range(first, last)]
            request = ShareAcknowledgeRequest(
                GROUP,
                MEMBER,
                self._session,
                topics=[share_acknowledge.AcknowledgeTopic(self._topic_id, asked)],
            )
            answer = self.connections.ask(request, ShareAcknowledgeResponse, 2)
            self._session += 1
            wrong = [each for topic in answer.responses for each in topic.partitions if each.error_code]
            if answer.error_code or wrong:
                raise RuntimeError(f"the acknowledgement was refused: {answer.error_code} {wrong[:1]}")
            self._beat()

    def _until(self, ready: Callable[[], int]) -> None:
        """Ask again and again until it is true of all partitions."""
        deadline = time.monotonic() + LONGEST_S
        while ready() < self._partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._partitions} partitions are not ready after {LONGEST_S} s")
            time.sleep(PAUSE_S)
