"""Topics with known records, and rows as a test wants to compare them."""

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from headrace.clients import Admin, Producer
from headrace.clients.errors import NoSuchTopicError
from headrace.spark.options import ReadOptions, read_options
from headrace.spark.ranges import OffsetRange
from headrace.spark.reading import read_range
from tests.compat.clients.face import eventually

HOUR_MS = 3_600_000
# Some hours ago: old enough to be told from now, too young for retention.
FIRST_MS = (int(time.time()) - 5 * 3600) * 1000


def fill(
    bootstrap: str,
    topic: str,
    values: Sequence[bytes | None],
    *,
    partition: int = 0,
    key: bytes | None = b"k",
    first_ms: int = FIRST_MS,
    step_ms: int = 1000,
    headers: Sequence[tuple[str, bytes | None]] = (),
    **settings: str,
) -> None:
    """Records with times that rise by a step, acknowledged when this returns."""
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": "20", **settings}) as producer:
        for number, value in enumerate(values):
            time_ms = first_ms + number * step_ms
            producer.send(
                topic, value, key=key, partition=partition, timestamp_ms=time_ms, headers=tuple(headers)
            )
        producer.flush()


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(start, start + count)]


def options_for(bootstrap: str, topic: str, *, streaming: bool = False, **options: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": bootstrap, **options}
    if not {"assign", "subscribePattern"}.intersection(options):
        given["subscribe"] = topic
    return read_options(given, streaming=streaming)


def rows_of(wanted: OffsetRange, options: ReadOptions, **more: Any) -> list[dict[str, Any]]:
    return [row for batch in read_range(wanted, options, **more) for row in batch.to_pylist()]


def values_of(wanted: OffsetRange, options: ReadOptions) -> list[bytes | None]:
    return [row["value"] for row in rows_of(wanted, options)]


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.delete_records([ConfluentPartition(topic, partition, before)])
    for future in futures.values():
        assert future.result().low_watermark == before


def delete_topic(bootstrap: str, topic: str) -> None:
    """Returns when no metadata has it any more."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([topic])

        def is_gone() -> bool:
            try:
                admin.describe_topics([topic])
            except NoSuchTopicError:
                return True
            return False

        eventually(is_gone, f"the deletion of {topic}")
