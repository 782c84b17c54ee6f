"""Apache Kafka's own class reads the records of lives with failures: it refuses none, and knows the same
segments afterwards.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from headrace.base.ids import uuid_text
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.records.batch import batches, read_records
from headrace.remote_log.steps import Publisher
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.metadata_serde import decode_record, encode_record
from headrace.tiered.segment_metadata import (
    GIVEN_UP,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tests.compat.prepare import UnavailableError, java_class, java_command, kafka_libs
from tests.remote_log.test_crashes import AFTER, HALF, Plan, run
from tests.remote_log.test_remote_log_manager import TieredWorld
from tests.tiered.building import PARTITION, remote_segment

pytestmark = pytest.mark.java

MAIN = "org.apache.kafka.server.log.remote.metadata.storage.KafkasCache"


@pytest.fixture(scope="module")
def classes() -> Path:
    try:
        return java_class(Path(__file__).with_name("KafkasCache.java"), kafka_libs())
    except UnavailableError as reason:
        pytest.skip(str(reason))


def known_to_kafka(records: Iterable[bytes], classes: Path) -> set[str]:
    """The segments that Kafka knows after these records; none may be refused."""
    lines = "".join(f"{record.hex()}\n" for record in records)
    done = subprocess.run(
        [*java_command(classes=classes), MAIN], input=lines, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" not in done.stdout, done.stdout
    return set(done.stdout.splitlines())


def known_here(records: Iterable[bytes]) -> set[str]:
    logs = RemotePartitionMetadataStore()
    for record in records:
        decoded = decode_record(record)
        assert decoded is not None
        logs.apply(decoded)
    return {
        f"{uuid_text(each.topic_id)} {each.topic_partition.partition} {uuid_text(segment.segment_id)} "
        + segment.state.name.replace("_", "_SEGMENT_")
        for each in logs.partitions()
        for segment in logs.known(each)
    }


def records_of(world: TieredWorld) -> list[bytes]:
    """All that a node wrote to `__remote_log_metadata`; a partition's records are in one partition of it."""
    found: list[bytes] = []
    for replica in world.node.parts.replica_manager:
        if replica.topic_partition.topic == REMOTE_LOG_TOPIC and replica.log is not None:
            for segment in replica.log.segments:
                data = segment.file.read(0, segment.size)
                for at, _ in batches(data):
                    found += [bytes(record.value or b"") for record in read_records(data, at)]
    return found


def test_it_refuses_nothing_that_is_written_in_a_life_with_crashes(classes: Path) -> None:
    lives: list[bytes] = []
    for at in (1, 3, 5, 8, 11, 12):
        run(Plan(at, HALF), at_end=lambda world: lives.extend(records_of(world)))
    for count in (1, 3, 5, 6):
        run(Plan(0, AFTER), records=count, at_end=lambda world: lives.extend(records_of(world)))
    assert known_to_kafka(lives, classes) == known_here(lives)
    decoded = [decode_record(record) for record in lives]
    assert any(
        isinstance(each, RemoteLogSegmentMetadata) and each.custom_metadata == GIVEN_UP for each in decoded
    )


@pytest.mark.parametrize("finishes_before", [True, False])
def test_a_finish_that_races_with_a_new_leader(classes: Path, finishes_before: bool) -> None:
    """Before it was given up the copy counts, to both. Behind it, to Kafka alone, until it is removed."""
    started = remote_segment(1, 0, 9, state=RemoteLogSegmentState.COPY_STARTED)
    given_up = Publisher(2, lambda: 8).give_up(started).record
    finish = RemoteLogSegmentMetadataUpdate(
        PARTITION, started.segment_id, RemoteLogSegmentState.COPY_FINISHED, 1, 7
    )
    removal = [
        RemoteLogSegmentMetadataUpdate(PARTITION, started.segment_id, state, 2, 9)
        for state in (RemoteLogSegmentState.DELETE_STARTED, RemoteLogSegmentState.DELETE_FINISHED)
    ]
    race = (finish, given_up) if finishes_before else (given_up, finish, removal[0])
    records = [encode_record(each) for each in (started, *race)]
    assert known_to_kafka(records, classes) == known_here(records)
    assert len(known_here(records)) == 1
    records += [encode_record(each) for each in removal]
    assert known_to_kafka(records, classes) == known_here(records) == set()
