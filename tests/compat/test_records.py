"""Every client produces and consumes: codecs, keys, headers, nulls, sizes, offsets and times."""

import pytest

from tests.compat.brokers import Broker
from tests.compat.clients.face import CODECS, Client, Record, RefusedError
from tests.compat.clients.roster import Entry, as_params
from tests.compat.conftest import MakeTopic
from tests.compat.dump_check import check_files
from tests.compat.samples import as_seen_by, hour_ago_ms, incompressible, numbered, sample_records

BATCH_HEADER_BYTES = 61


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("entry", as_params())
def test_round_trip(broker: Broker, entry: Entry, client: Client, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic(2)
    sent = [record for partition in (0, 1) for record in sample_records(entry, partition, hour_ago_ms())]
    offsets = client.produce(topic, sent, codec)
    expected = numbered(sent)
    assert offsets == [record.offset for record in expected]
    ends = {0: len(sent) // 2, 1: len(sent) // 2}
    assert client.bounds(topic) == {at: (0, end) for at, end in ends.items()}
    assert client.consume(topic, ends) == as_seen_by(entry, expected)
    if broker.data is not None:
        found = set(_codecs_on_disk(broker, topic))
        if entry.name in ("confluent", "kafka-python", "aiokafka"):
            # They send a batch as it is where its codec would make it larger, as with one that closed early.
            found -= {0} - {CODECS.index(codec)}
        assert found == {CODECS.index(codec)}


@pytest.mark.parametrize("entry", as_params())
def test_reading_from_the_middle(entry: Entry, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    sent = [record for partition in (0, 1) for record in sample_records(entry, partition, hour_ago_ms())]
    client.produce(topic, sent, "none")
    read = client.consume(topic, {0: 20, 1: 7}, {0: 11, 1: 0})
    expected = [each for each in numbered(sent) if each.offset < (20, 7)[each.partition]]
    assert read == as_seen_by(entry, [each for each in expected if each.offset >= (11, 0)[each.partition]])


@pytest.mark.parametrize("entry", as_params())
def test_large_record(entry: Entry, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Record(0, hour_ago_ms() + at, b"large", incompressible(900_000 + at)) for at in range(3)]
    for record in sent:
        client.produce(topic, [record], "none")
    assert client.consume(topic, {0: 3}) == numbered(sent)


@pytest.mark.parametrize("entry", as_params())
def test_record_above_the_limit_is_refused(entry: Entry, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"max.message.bytes": "2000"})
    with pytest.raises(RefusedError) as refusal:
        client.produce(topic, [Record(0, hour_ago_ms(), b"large", incompressible(3000))], "none")
    assert refusal.value.code == 10  # MESSAGE_TOO_LARGE
    fits = Record(0, hour_ago_ms(), b"small", incompressible(1000))
    assert client.produce(topic, [fits], "none") == [0]
    assert client.consume(topic, {0: 1}) == numbered([fits])


@pytest.mark.parametrize("entry", as_params())
def test_offsets_for_times(entry: Entry, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    first_ms = hour_ago_ms()
    for at in range(5):  # a batch each, so that the answer is not always a batch's first record
        times = range(first_ms + at * 1000, first_ms + at * 1000 + 30, 10)
        client.produce(topic, [Record(0, ms, b"key", b"value" * 10) for ms in times], "lz4")
    assert client.offsets_for_time(topic, 0) == {0: 0, 1: -1}
    assert client.offsets_for_time(topic, first_ms + 10) == {0: 1, 1: -1}
    assert client.offsets_for_time(topic, first_ms + 21) == {0: 3, 1: -1}
    assert client.offsets_for_time(topic, first_ms + 3015) == {0: 11, 1: -1}
    assert client.offsets_for_time(topic, first_ms + 4020) == {0: 14, 1: -1}
    assert client.offsets_for_time(topic, first_ms + 4021) == {0: -1, 1: -1}


@pytest.mark.java
def test_apache_kafka_reads_every_file(broker: Broker) -> None:
    check_files(broker)


def _codecs_on_disk(broker: Broker, topic: str) -> list[int]:
    """The compression bits of every batch in the topic's log files."""
    codecs = []
    for partition in (0, 1):
        (log,) = broker.partition_folder(topic, partition).glob("*.log")
        data, at = log.read_bytes(), 0
        while at + BATCH_HEADER_BYTES <= len(data):
            size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            if size == 12:  # room kept ahead of the writer
                break
            codecs.append(int.from_bytes(data[at + 21 : at + 23], "big") & 7)
            at += size
    return codecs
