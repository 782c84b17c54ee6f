"""The attacks, each as a function that returns when its questions are answered or its time is over.

They are what was found to hold a node up: requests whose cost grows with what is stored, many of them on one
connection, by peers that never read; bytes that unpack to a thousand times as many; frames that never end;
one request with two hundred thousand names, of each kind that takes a list (`many_names.py`).
"""

import contextlib
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.offset_fetch import OffsetFetchRequest
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.compat import raw_wire
from tests.compat.attacks.many_names import GROUP, KNOWN, MANY_NAMES
from tests.compat.attacks.stored import Stored
from tests.compat.attacks.wire import Replies, connect, flood, frame, let_pass, receive

MIB = 1 << 20
FLOOD_SECONDS = 10.0
GZIP = 1
TOPIC_RESOURCE = 2


@dataclass(frozen=True)
class Sizes:
    """How much of everything; the quick form finds the same faults with less."""

    groups: int = 2_000
    many_groups: int = 50_000
    topics: int = 5_000
    partitions: int = 2_000
    clients: int = 200
    unfinished: int = 2_500
    names: int = 200_000
    seconds: float = FLOOD_SECONDS
    settle_seconds: float = 8.0
    """After so long an attack's memory has been given back, or is not."""


QUICK = Sizes(
    groups=500,
    many_groups=5_000,
    topics=1_000,
    partitions=1_000,
    clients=50,
    unfinished=500,
    names=20_000,
    seconds=4.0,
    settle_seconds=1.0,
)


@dataclass(frozen=True)
class Target:
    """The attacked broker, and what it holds."""

    bootstrap: str
    stored: Stored
    sizes: Sizes


@dataclass(frozen=True)
class Attack:
    """What is there before, what is done, and how large the victim's records are meanwhile."""

    prepare: Callable[[Target], None]
    run: Callable[[Target], int]
    """Returns how many requests were answered, where that is known."""
    victim_bytes: int = 100
    median_ms_max: float = 50
    ms_max: float = 250
    """The polite client may wait so long, on a machine that does nothing else."""


def _flood_and_read(target: Target, request: bytes, count: int) -> int:
    """One connection that asks the same thing many times without waiting; its replies are read. Ends with the
    last of them, or when the time is over."""
    deadline = time.monotonic() + target.sizes.seconds
    with connect(target.bootstrap) as own:
        replies = Replies(own, count)
        flood(own, request * count, target.sizes.seconds)
        replies.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)
    return replies.count


def idle(target: Target) -> int:
    let_pass(target.sizes.seconds)
    return 0


def list_groups(target: Target) -> int:
    return _flood_and_read(target, frame(ListGroupsRequest(states_filter=["Dead"]), 4), 9_000)


def all_groups(target: Target) -> int:
    return _flood_and_read(target, frame(ListGroupsRequest(), 4), 1_000)


def never_read(target: Target) -> int:
    request = frame(MetadataRequest(topics=[MetadataRequestTopic(name="wide")]), 9) * 2_000
    ends = time.monotonic() + target.sizes.seconds
    own = [connect(target.bootstrap) for _ in range(40)]
    senders = [threading.Thread(target=flood, args=(each, request, target.sizes.seconds)) for each in own]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    let_pass(max(0.0, ends - time.monotonic()))
    for each in own:
        each.close()
    return 0


def million_names(target: Target) -> int:
    """A Metadata v1 request of 2 MB: a million empty names."""
    return _one_by_one(
        target, raw_wire.request(raw_wire.METADATA, 1, struct.pack(">i", 1_000_000) + bytes(2_000_000)), 5
    )


def million_topics(target: Target) -> int:
    """A million names that all differ."""
    names = b"".join(b"\0\7n%06x" % number for number in range(1_000_000))
    request = raw_wire.request(raw_wire.METADATA, 4, struct.pack(">i", 1_000_000) + names + b"\0")
    return _one_by_one(target, request, 2)


def _one_by_one(target: Target, request: bytes, times: int) -> int:
    answered = 0
    for _ in range(times):
        with connect(target.bootstrap) as own, contextlib.suppress(OSError):
            own.sendall(request)
            receive(own)
            answered += 1
    return answered


def _varint(value: int) -> bytes:
    value = value << 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _large_record(size: int) -> tuple[bytes, int]:
    """The bytes before a value of `size` zero bytes, which one more (no headers) ends."""
    head = b"\0\0\0\x01" + _varint(size)
    return _varint(len(head) + size + 1) + head, size + 1


def zeros(target: Target) -> int:
    """300 MiB of zeros in a gzip batch of 306 kB, ten times."""
    head, rest = _large_record(300 * MIB)
    packer = zlib.compressobj(9, wbits=31)
    packed = [packer.compress(head)]
    piece = bytes(MIB)
    while rest:
        packed.append(packer.compress(piece[: min(rest, MIB)]))
        rest -= min(rest, MIB)
    records = raw_wire.batch(b"".join((*packed, packer.flush())), codec=GZIP)
    return _one_by_one(target, raw_wire.produce("zeros", records), 10)


def large_message(target: Target) -> int:
    """100 MB in one record, five times."""
    head, rest = _large_record(100_000_000)
    return _one_by_one(target, raw_wire.produce("large", raw_wire.batch(head + bytes(rest))), 5)


def _store_large_message(target: Target) -> None:
    target.stored.topic("large", max_message_bytes="104857600")
    large_message(target)


def large_fetch(target: Target) -> int:
    """Four consumers that each fetch a message of 100 MB five times, at the same time."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = frame(
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic="large", partitions=[wanted])],
        ),
        11,
    )
    readers = [threading.Thread(target=_one_by_one, args=(target, request, 5)) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return 20


def wide_produce(target: Target) -> int:
    """90 batches of 1 MB, each small enough, in one request; five times."""
    head, rest = _large_record(1_000_000)
    records = raw_wire.batch(head + bytes(rest))
    data = [PartitionProduceData(number, records) for number in range(90)]
    topics = [TopicProduceData(name="wide-produce", partition_data=data)]
    return _one_by_one(target, frame(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 7), 5)


def all_topics(target: Target) -> int:
    """Clients that all ask for all topics at once, as after a restart; three times."""
    request = frame(MetadataRequest(topics=None), 12)
    own = [connect(target.bootstrap) for _ in range(target.sizes.clients)]
    for _ in range(3):
        for each in own:
            each.sendall(request)
        for each in own:
            receive(each)
    for each in own:
        each.close()
    return 3 * len(own)


def unfinished(target: Target) -> int:
    """Frames that announce 90 MB and stop after 256 kB."""
    own = []
    beginning = struct.pack(">i", 90_000_000) + struct.pack(">hhi", 0, 7, 1) + bytes(256 * 1024)
    for _ in range(target.sizes.unfinished):
        with contextlib.suppress(OSError):
            made = connect(target.bootstrap)
            made.setblocking(False)
            own.append(made)
            with contextlib.suppress(BlockingIOError):
                made.send(beginning)
    let_pass(target.sizes.seconds)
    for each in own:
        each.close()
    return 0


def describe_configs(target: Target) -> int:
    resources = [
        DescribeConfigsResource(TOPIC_RESOURCE, f"many-{number:05}", None)
        for number in range(target.sizes.topics)
    ]
    request = DescribeConfigsRequest(resources, include_synonyms=True, include_documentation=True)
    return _flood_and_read(target, frame(request, 4), 20)


def describe_log_dirs(target: Target) -> int:
    return _flood_and_read(target, frame(DescribeLogDirsRequest(topics=None), 4), 1_000)


def offset_fetch(target: Target) -> int:
    return _flood_and_read(target, frame(OffsetFetchRequest(group_id="wide-group", topics=None), 7), 2_000)


def describe_topic_partitions(target: Target) -> int:
    return _flood_and_read(target, frame(DescribeTopicPartitionsRequest(), 0), 2_000)


@cache
def _with_names(name: str, count: int) -> bytes:
    request, version = MANY_NAMES[name]
    return frame(request(count), version)


def _store_for_names(name: str, target: Target) -> None:
    """What is asked about, both coordinators, and the request."""
    target.stored.coordinators()
    target.stored.commits(GROUP, KNOWN, 1)
    _with_names(name, target.sizes.names)


def _ask_with_names(name: str, target: Target) -> int:
    return _one_by_one(target, _with_names(name, target.sizes.names), 3)


def _nothing(_: Target) -> None: ...


ATTACKS = {
    "idle": Attack(_nothing, idle),
    "list-groups": Attack(lambda its: its.stored.groups(its.sizes.groups), list_groups),
    "never-read": Attack(lambda its: its.stored.topic("wide", its.sizes.partitions), never_read),
    "million-names": Attack(_nothing, million_names),
    "million-topics": Attack(_nothing, million_topics),
    "zeros": Attack(lambda its: its.stored.topic("zeros"), zeros),
    "large-message": Attack(
        lambda its: its.stored.topic("large", max_message_bytes="104857600"), large_message
    ),
    "large-fetch": Attack(_store_large_message, large_fetch),
    "wide-produce": Attack(lambda its: its.stored.topic("wide-produce", 90), wide_produce),
    "unfinished": Attack(_nothing, unfinished, victim_bytes=500_000),
    "offset-fetch": Attack(
        lambda its: its.stored.commits("wide-group", "wide", its.sizes.partitions), offset_fetch
    ),
    "all-topics": Attack(lambda its: its.stored.topics(its.sizes.topics), all_topics),
    "describe-configs": Attack(lambda its: its.stored.topics(its.sizes.topics), describe_configs),
    "describe-log-dirs": Attack(lambda its: its.stored.topics(its.sizes.topics), describe_log_dirs),
    "describe-topic-partitions": Attack(
        lambda its: its.stored.topics(its.sizes.topics), describe_topic_partitions
    ),
    "many-groups": Attack(lambda its: its.stored.groups(its.sizes.many_groups), list_groups),
    "all-groups": Attack(lambda its: its.stored.groups(its.sizes.many_groups), all_groups),
    **{
        f"names-{name}": Attack(partial(_store_for_names, name), partial(_ask_with_names, name))
        for name in MANY_NAMES
    },
}
