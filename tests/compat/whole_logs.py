"""Everything that is in a broker's partitions, and what its log about the remote store tells."""

from functools import partial
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.base.errors import InvalidBytesError
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.records.batch import batches, read_records
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.metadata_serde import decode_record
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata
from tests.compat.clients.face import eventually


def read_messages(bootstrap: str, places: list[tuple[str, int]]) -> list[Message]:
    """What is in these partitions now, each in order. What is removed meanwhile may be missing, also at the
    end: so that is where the broker says that it is.
    """
    ends = _find(bootstrap, places, OffsetSpec.latest())
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "any",
        "log_level": 0,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
    found: list[Message] = []
    left = {place for place, end in ends.items() if end}

    def has_read() -> bool:
        for message in consumer.consume(1000, timeout=0.05):
            place, error = (message.topic(), message.partition()), message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                if message.offset() >= ends[place]:
                    left.discard(place)
        return not left

    eventually(has_read, "everything to be read", 60)
    consumer.close()
    return found


def start_of(bootstrap: str, place: tuple[str, int]) -> int:
    """The first offset that a partition says to have."""
    return _find(bootstrap, [place], OffsetSpec.earliest())[place]


def _find(bootstrap: str, places: list[tuple[str, int]], spec: OffsetSpec) -> dict[tuple[str, int], int]:
    """A leader that has just begun may not know yet where its log starts (OFFSET_NOT_AVAILABLE): librdkafka
    leaves it to the application to ask again. Its `get_watermark_offsets` takes such an answer for a log
    that starts at its end.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def ask(place: tuple[str, int]) -> list[int]:
        (found,) = admin.list_offsets({TopicPartition(*place): spec}).values()
        try:
            return [found.result(20).offset]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.OFFSET_NOT_AVAILABLE:
                raise
            return []

    return {place: eventually(partial(ask, place), "the leader to know its log")[0] for place in places}


def told_segments(data: Path) -> list[RemoteLogSegmentMetadata] | None:
    """The segments that `__remote_log_metadata` tells of, in whichever state, by the log's files in a node's
    data folder; None where the last of them is just being written.
    """
    logs = RemotePartitionMetadataStore()
    for path in sorted(data.glob(f"{REMOTE_LOG_TOPIC}-*/*.log")):
        file = path.read_bytes()
        try:
            values = [record.value for at, _ in batches(file) for record in read_records(file, at)]
        except InvalidBytesError:
            return None
        for value in values:
            told = None if value is None else decode_record(value)
            assert told is not None
            logs.apply(told)
    return [segment for partition in logs.partitions() for segment in logs.known(partition)]
