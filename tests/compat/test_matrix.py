"""What one client produced every other reads, equal to the byte: keys, values, headers, times, offsets."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.compat.brokers import Broker
from tests.compat.clients.face import CODECS, Client, Record
from tests.compat.clients.roster import Entry, as_params
from tests.compat.conftest import MakeTopic
from tests.compat.dump_check import check_files
from tests.compat.samples import as_seen_by, hour_ago_ms, numbered, sample_records

Written = Callable[[Entry], tuple[str, list[Record]]]


@pytest.fixture(scope="module")
def written(open_client: Callable[[Entry], Client], make_topic: MakeTopic) -> Written:
    """A topic that the client has filled once with every kind of record in every codec, and its content."""
    topics: dict[str, tuple[str, list[Record]]] = {}

    def write_once(sender: Entry) -> tuple[str, list[Record]]:
        if sender.name not in topics:
            client, topic, sent = open_client(sender), make_topic(2), []
            for codec in CODECS:
                records = [each for at in (0, 1) for each in sample_records(sender, at, hour_ago_ms())]
                client.produce(topic, records, codec)
                sent += records
            topics[sender.name] = topic, numbered(sent)
        return topics[sender.name]

    return write_once


def _pairs() -> list[Any]:
    return [
        pytest.param(
            *sender.values,
            *reader.values,
            id=f"{sender.id}-{reader.id}",
            marks=[*sender.marks, *reader.marks],
        )
        for sender in as_params()
        for reader in as_params()
        if sender.id != reader.id
    ]


@pytest.mark.parametrize(("sender", "reader"), _pairs())
def test_every_client_reads_what_another_wrote(
    sender: Entry, reader: Entry, written: Written, open_client: Callable[[Entry], Client]
) -> None:
    topic, records = written(sender)
    ends = {at: sum(record.partition == at for record in records) for at in (0, 1)}
    assert open_client(reader).consume(topic, ends) == as_seen_by(reader, records)


@pytest.mark.java
def test_apache_kafka_reads_every_file(broker: Broker) -> None:
    check_files(broker)
