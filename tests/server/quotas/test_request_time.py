"""Quotas of the time that requests take: what is measured, whoever answers how, and what is told."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base.rates import Windows
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.security import SecurityTables
from headrace.server.context import NO_REPLY, PreparedReply
from headrace.server.quotas.quota_managers import QuotaManagers
from headrace.wire.apis import ApiKey
from headrace.wire.codec import decode, encode
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse, ReplicaState
from headrace.wire.schemas.heartbeat import HeartbeatResponse
from headrace.wire.schemas.metadata import MetadataResponse
from headrace.wire.schemas.metadata_records import ClientQuotaRecord, EntityData

LIMIT = 10.0
SLOW_NS = 5_000_000_000
"""A quota of 10 % gives one second in ten."""


def tables_with(*records: ClientQuotaRecord) -> SecurityTables:
    tables = SecurityTables()
    for record in records:
        tables.replay_quota(record, MetadataDelta())
    return tables


class Connection:
    closed = False
    muted = 0

    def mute(self) -> None:
        self.muted += 1

    def unmute(self) -> None:
        self.muted -= 1


class Node:
    """Quotas on a clock of the test, and a client."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ns = 0
        self.loop = loop
        self.quotas = QuotaManagers(self, loop, windows=Windows(11, 1000))
        self.connection = Connection()
        peer = SimpleNamespace(principal="User:alice", connection=self.connection, is_forwarded=False)
        self.context: Any = SimpleNamespace(
            peer=peer, client_id="app", api_key=int(ApiKey.HEARTBEAT), api_version=4
        )
        user = EntityData("user", "alice")
        self.quotas.follow(tables_with(ClientQuotaRecord([user], "request_percentage", LIMIT, False)))

    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return self.ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.ns

    def ask(self, handle: Any, request: Any = None, key: ApiKey = ApiKey.HEARTBEAT) -> Any:
        return self.quotas.guarded(key, handle)(self.context, request)

    def work(self, ns: int = SLOW_NS) -> None:
        self.ns += ns


@pytest.fixture
def node() -> Iterator[Node]:
    loop = asyncio.new_event_loop()
    yield Node(loop)
    loop.close()


def test_a_reply_at_once_tells_the_time_and_others_keep_theirs(node: Node) -> None:
    shared = HeartbeatResponse()

    def handle(context: Any, request: Any) -> HeartbeatResponse:
        node.work()
        return shared

    told = node.ask(handle)
    assert told.throttle_time_ms == 1000  # no more than a window at once
    assert shared.throttle_time_ms == 0
    assert node.connection.muted == 1


def test_little_time_costs_nothing(node: Node) -> None:
    def handle(context: Any, request: Any) -> HeartbeatResponse:
        node.work(1_000_000)
        return HeartbeatResponse()

    for _ in range(500):
        node.ns += 9_000_000
        assert node.ask(handle).throttle_time_ms == 0
    assert node.connection.muted == 0


def test_a_reply_that_comes_later_tells_it(node: Node) -> None:
    answer: asyncio.Future[Any] = node.loop.create_future()

    def handle(context: Any, request: Any) -> Any:
        node.work()
        return answer

    told = node.ask(handle)
    assert node.connection.muted == 1
    answer.set_result(HeartbeatResponse())
    assert node.loop.run_until_complete(told).throttle_time_ms == 1000


def test_slices_are_measured_together(node: Node) -> None:
    def slices() -> Any:
        for _ in range(10):
            node.work(SLOW_NS // 10)
            yield
        return HeartbeatResponse()

    work = node.ask(lambda context, request: slices())
    assert node.connection.muted == 0
    for _ in range(10):
        next(work)
    with pytest.raises(StopIteration) as done:
        next(work)
    assert done.value.value.throttle_time_ms == 1000
    assert node.connection.muted == 1


def test_a_failure_and_no_reply_count_as_well(node: Node) -> None:
    def fail(context: Any, request: Any) -> Any:
        node.work()
        raise LookupError

    with pytest.raises(LookupError):
        node.ask(fail)
    assert node.connection.muted == 1
    assert node.ask(lambda context, request: NO_REPLY) is NO_REPLY


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 13])
def test_metadata_that_is_written_already_tells_it(node: Node, version: int) -> None:
    node.context.api_key, node.context.api_version = int(ApiKey.METADATA), version
    written = encode(MetadataResponse(controller_id=7), version)

    def handle(context: Any, request: Any) -> PreparedReply:
        node.work()
        return PreparedReply([written])

    reply = node.ask(handle, key=ApiKey.METADATA)
    read = decode(MetadataResponse, version, b"".join(reply.body))
    assert read.throttle_time_ms == (1000 if version >= 3 else 0)
    assert written == encode(MetadataResponse(controller_id=7), version)


def test_followers_and_others_are_not_measured(node: Node) -> None:
    def handle(context: Any, request: Any) -> FetchResponse:
        node.work()
        return FetchResponse()

    follower = FetchRequest(replica_state=ReplicaState(2, 1))
    assert node.ask(handle, follower, ApiKey.FETCH).throttle_time_ms == 0
    assert node.ask(handle, None, ApiKey.WRITE_TXN_MARKERS).throttle_time_ms == 0
    node.context.peer.principal = "User:bob"
    assert node.ask(handle, FetchRequest(), ApiKey.FETCH).throttle_time_ms == 0
    node.context.peer.principal = "User:alice"
    assert node.ask(handle, FetchRequest(), ApiKey.FETCH).throttle_time_ms == 1000


def test_without_quotas_the_handler_is_not_touched(node: Node) -> None:
    def handle(context: Any, request: Any) -> HeartbeatResponse:
        return HeartbeatResponse()

    assert node.quotas.guarded(ApiKey.PRODUCE, handle) is not handle
    assert node.quotas.follow(tables_with()) is True
    for key in ApiKey:
        assert node.quotas.guarded(key, handle) is handle
