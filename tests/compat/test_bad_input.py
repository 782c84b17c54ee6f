"""Broken and hostile bytes: Apache Kafka's answers, or better ones, and service for everyone else meanwhile.

Where the broker here is to be better than Apache Kafka (-1 tells a client nothing), a table says both.
"""

import struct
import zlib
from collections.abc import Iterator

import pytest

from tests.compat.brokers import ApacheKafkaBroker, Broker, HeadraceBroker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster
from tests.compat.conftest import MakeTopic
from tests.compat.dump_check import check_files
from tests.compat.raw_wire import (
    API_VERSIONS,
    FIND_COORDINATOR,
    METADATA,
    Connection,
    batch,
    create_topic,
    framed,
    produce,
    request,
    talk,
    text,
)

GOOD = request(API_VERSIONS, 0)


@pytest.fixture(autouse=True)
def _still_serving(broker: Broker) -> Iterator[None]:
    """After each of these the broker serves the next client, unless the test has stopped it."""
    yield
    if broker.is_running:
        answer = talk(broker.bootstrap, GOOD)
        assert (answer.state, answer.first_error) == ("answered", 0)


CLOSED = {
    "length below zero": struct.pack(">i", -1),
    "length of two gigabytes": struct.pack(">i", 0x7FFFFFFF),
    "length above the limit": struct.pack(">i", 105 << 20),
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "TLS": bytes.fromhex("160301020001") + bytes(64),
    "empty frame": framed(b""),
    "half a header": framed(b"\0\x12\0"),
    "unknown request": request(9999, 0),
    "version from the future": request(METADATA, 99),
    "count of two thousand million": request(METADATA, 4, struct.pack(">i", 0x7FFFFFF0)),
    "count below zero": request(METADATA, 4, struct.pack(">i", -5)),
    "string beyond the frame": request(METADATA, 4, struct.pack(">ih", 1, 30_000) + b"x"),
}


@pytest.mark.parametrize("payload", CLOSED.values(), ids=CLOSED.keys())
def test_connection_is_closed(broker: Broker, payload: bytes) -> None:
    assert talk(broker.bootstrap, payload).state == "closed"


def test_versions_from_the_future_are_answered_in_the_oldest_form(broker: Broker) -> None:
    answer = talk(broker.bootstrap, request(API_VERSIONS, 99, b"\0"))
    assert (answer.state, answer.first_error, answer.correlation_id) == ("answered", 35, 7)
    (count, key, least, most) = struct.unpack_from(">ihhh", answer.frame, 10)
    assert (count, key, least) == (1, API_VERSIONS, 0)
    assert most >= 3


def test_correlation_id_comes_back_as_it_was(broker: Broker) -> None:
    answer = talk(broker.bootstrap, request(API_VERSIONS, 0, correlation_id=-(1 << 31)))
    assert answer.correlation_id == -(1 << 31)


def test_client_id_of_no_length_is_none(broker: Broker) -> None:
    answer = talk(broker.bootstrap, framed(struct.pack(">hhih", API_VERSIONS, 0, 7, -2)))
    assert (answer.state, answer.first_error) == ("answered", 0)


def test_half_a_frame_holds_up_nobody(broker: Broker) -> None:
    with Connection(broker.bootstrap) as slow:
        slow.send(GOOD[:9])
        assert talk(broker.bootstrap, GOOD).state == "answered"
        slow.send(GOOD[9:])
        assert slow.outcome().state == "answered"


def test_five_hundred_idle_connections_hold_up_nobody(broker: Broker) -> None:
    idle = [Connection(broker.bootstrap) for _ in range(500)]
    try:
        assert talk(broker.bootstrap, GOOD).state == "answered"
    finally:
        for connection in idle:
            connection.__exit__()


@pytest.mark.parametrize("name", ["", ".", "..", "../../etc/passwd", "a/b", "a\0b", "a b", "é", "x" * 250])
def test_topic_name_is_refused(broker: Broker, name: str) -> None:
    answer = talk(broker.bootstrap, create_topic(name))
    assert (answer.state, answer.topic_error) == ("answered", 17)


def _gzip_bomb() -> bytes:
    """256 MiB of zeros in some 260 kB."""
    press = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(press.compress(bytes(1 << 20)) for _ in range(256)) + press.flush()


# name: (batch, Apache Kafka's answers, ours)
REFUSED = {
    "wrong check sum": (lambda: batch(crc=1), {2}, {2}),
    "format 9": (lambda: batch(magic=9), {2}, {2}),
    "batch longer than it says": (lambda: batch(length=50), {2}, {2}),
    "batch shorter than it says": (lambda: batch(length=500), {2, 87}, {2, 87}),
    "fewer records than it says": (lambda: batch(count=1000), {87}, {87}),
    "records after the last": (lambda: batch(bytes(3) + batch()), {87}, {87}),
    "no batch": (lambda: b"", {87}, {87}),
    "half a batch header": (lambda: batch()[:30], {2, 87}, {2, 87}),
    "unknown codec": (lambda: batch(codec=7), {-1}, {2, 76}),
    "gzip that is none": (lambda: batch(b"not gzip", codec=1), {-1}, {2, 87}),
    "gzip bomb": (lambda: batch(_gzip_bomb(), codec=1), {87}, {87}),
    "batch above the limit": (lambda: batch(bytes(2 << 20)), {10}, {10}),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_batch_is_refused(broker: Broker, bad_topic: str, case: tuple) -> None:
    make, kafkas, ours = case
    leader = _leader_of(broker, bad_topic)
    answer = talk(leader, produce(bad_topic, make()))
    assert answer.state == "answered"
    allowed = {HeadraceBroker: ours, HeadraceCluster: ours, ApacheKafkaBroker: kafkas}.get(
        type(broker), kafkas | ours
    )
    assert answer.produce_error in allowed
    assert talk(leader, produce(bad_topic, batch())).produce_error == 0


@pytest.fixture(scope="module")
def bad_topic(make_topic: MakeTopic) -> str:
    return make_topic()


def test_clients_may_not_write_to_internal_topics(broker: Broker) -> None:
    eventually(lambda: _finds_coordinator(broker), "a coordinator, and with it the internal topic")
    assert talk(broker.bootstrap, produce("__consumer_offsets", batch())).produce_error == 17


@pytest.mark.java
def test_apache_kafka_reads_every_file(broker: Broker) -> None:
    check_files(broker)


def _leader_of(broker: Broker, topic: str) -> str:
    client = Confluent(broker.bootstrap)
    leader = client.describe_topic(topic)[0]["leader"]
    return next(f"{host}:{port}" for number, host, port in client.cluster()["brokers"] if number == leader)


def _finds_coordinator(broker: Broker) -> bool:
    answer = talk(broker.bootstrap, request(FIND_COORDINATOR, 0, text("some group")))
    return answer.state == "answered" and answer.first_error == 0
