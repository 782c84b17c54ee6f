"""A leader and a follower of one partition, and a fetcher between them that a test moves by hand.

Requests go to the real Fetch handler on the leader's side; answers pass through their real encoding.
"""

import random
from types import SimpleNamespace
from typing import Any

from headrace.base.ids import TopicPartition
from headrace.log.log_manager import LogManager
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.topics import PartitionImage
from headrace.records.header import batches
from headrace.replication.follower_log import Slices
from headrace.replication.leader_state import ReplicaContext
from headrace.replication.partition import Partition
from headrace.replication.replica_fetcher import FetchLimits, PendingFetch, ReplicaFetcher
from headrace.replication.replication_quotas import ReplicaQuota
from headrace.server.authorizer import AllowAll
from headrace.server.context import RequestContext
from headrace.server.fetch_sessions import FetchSessionCache
from headrace.server.handlers import fetch, list_offsets, offset_for_leader_epoch
from headrace.testing.clock import VirtualClock
from headrace.testing.scenarios.replica_world import newest, through_the_wire
from headrace.wire.notation import schema_of
from tests.replication.building import Bench, topic_id

LEADER, FOLLOWER = 1, 2
WHERE = TopicPartition("t", 0)
ID = topic_id(1)
HANDLERS: dict[int, Any] = {1: fetch.handle, 2: list_offsets.handle, 23: offset_for_leader_epoch.handle}


class Side:
    """One broker's replica."""

    def __init__(self, node_id: int, **settings: str) -> None:
        self.node_id = node_id
        self.bench = Bench(**settings)
        self.bench.open()
        self.store: LogManager = self.bench.store
        self.flushes: list[UnifiedLog] = []
        self.proposed: list[Partition] = []
        self.log = self.store.create(WHERE, ID, self.bench.config_of("t"))
        self.partition = Partition(
            WHERE,
            ID,
            self.log,
            node_id=node_id,
            on_advance=self.bench.advanced.append,
            request_flush=self.flushes.append,
            context=ReplicaContext(10_000, lambda broker: 5, self.proposed.append),
        )

    def follow(self, leader: int, epoch: int, *in_sync: int) -> None:
        image = PartitionImage((1, 2), in_sync or (1, 2), leader, epoch, partition_epoch=epoch)
        self.partition.follow_metadata(image, 0)

    @property
    def ends(self) -> tuple[int, int, int]:
        return self.log.log_start_offset, self.log.high_watermark, self.log.log_end_offset


class Pair:
    """Leader and follower, in epoch 0 at first. `now_ms` is the follower's time."""

    def __init__(self, throttle: ReplicaQuota | None = None, **settings: str) -> None:
        self.leader = Side(LEADER, **settings)
        self.follower = Side(FOLLOWER, **settings)
        self.now_ms = 1_000
        self.sessions = FetchSessionCache(random.Random(3))
        self.fetcher = ReplicaFetcher(
            node_id=FOLLOWER, limits=FetchLimits(wait_ms=0, pause_ms=100), throttle=throttle
        )
        self.fetcher.broker_epoch = 5
        self.asked: list[Any] = []
        self.lead(0)

    def lead(self, epoch: int) -> None:
        for side in (self.leader, self.follower):
            side.follow(LEADER, epoch)
        self.fetcher.follow(self.follower.partition)

    def serve(self, request: Any) -> Any:
        """The leader's answer to a request."""
        version = newest(request)
        found = {WHERE: self.leader.partition}
        image = SimpleNamespace(
            topics_by_id={ID: SimpleNamespace(name="t", partitions={})}, topics_by_name={}, brokers={}
        )
        parts: Any = SimpleNamespace(
            clock=VirtualClock(),
            sessions=self.sessions,
            image=image,
            authorizer=AllowAll(),
            replica_manager=SimpleNamespace(
                find=lambda topic, index: found[topic, index],  # type: ignore[index]
                context=ReplicaContext(),
            ),
            replica_selector=None,
            leader_replication_quota=None,
            fetch_bytes_max=1 << 20,
        )
        peer: Any = SimpleNamespace(principal="User:broker", host="here", listener="PLAINTEXT")
        key = schema_of(type(request)).api_key
        assert key is not None
        context = RequestContext(key, version, 0, None, peer, parts)
        return through_the_wire(HANDLERS[key](context, through_the_wire(request, version)), version)

    def ask(self) -> PendingFetch | None:
        asked = self.fetcher.next_request(self.now_ms)
        if asked is not None:
            self.asked.append(asked.request)
        return asked

    def turn(self) -> Any:
        """One request and its answer; None where there was nothing to ask."""
        asked = self.ask()
        if asked is None:
            return None
        response = self.serve(asked.request)
        self.take(asked, response)
        return response

    def take(self, asked: PendingFetch, response: Any) -> None:
        for _ in self.take_in_slices(asked, response) or ():
            pass

    def take_in_slices(self, asked: PendingFetch, response: Any) -> Slices | None:
        """Slices where it takes long."""
        return self.fetcher.take(asked, response, self.now_ms, 1_700_000_000_000)

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()

    def same_bytes(self) -> bool:
        return _bytes_of(self.leader.log) == _bytes_of(self.follower.log)


def _bytes_of(log: UnifiedLog) -> bytes:
    """All of a log, however it is cut into segments."""
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        chunk = log.read(offset, max_bytes=1 << 20).chunk
        data = chunk if isinstance(chunk, bytes) else chunk.read()
        found += data
        for _, header in batches(data):
            offset = header.next_offset
    return found
