"""A new partition's log: its folder with an empty segment and the topic's id in it, and the log they make."""

from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.log.checkpoints import encode_partition_metadata
from headrace.log.disk import Disk
from headrace.log.file_names import LOG, PARTITION_METADATA, offset_name
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.partition_log import PartitionLog
from headrace.log.producer_snapshots import ProducerSnapshots
from headrace.log.producer_states import ProducerStates
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.log.storage import Storage
from headrace.settings.topic import TopicConfig


def make_files(disk: Disk, folder: str, start: int, config: TopicConfig, topic_id: TopicId) -> None:
    """Make a folder that is not there, and all that is in it from the beginning. Blocks."""
    disk.make_folder(folder)
    file = disk.open(f"{folder}/{offset_name(start)}{LOG}", create=True)
    if config.preallocate:
        file.preallocate(config.segment_bytes)
    if topic_id != NO_TOPIC_ID:
        disk.open(f"{folder}/{PARTITION_METADATA}", create=True).write(
            0, (encode_partition_metadata(topic_id),)
        )


def new_log(
    storage: Storage,
    folder: str,
    topic_partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: int,
    topic_id: TopicId = NO_TOPIC_ID,
    start: int = 0,
) -> PartitionLog:
    """The log in a folder that `make_files` has made, and nobody has used yet."""
    segment = Segment(storage, folder, start, size=0, config=config, created_ms=now_ms, has_index_files=False)
    segment.reset()
    log = PartitionLog(
        storage,
        folder,
        topic_partition,
        topic_id,
        config,
        segments=Segments([segment]),
        epochs=LeaderEpochs(),
        producers=ProducerStates(),
        snapshots=ProducerSnapshots(storage, folder, []),
        log_start_offset=start,
        log_end_offset=start,
        recovery_point=0,
        now_ms=now_ms,
    )
    log.owed.note_folders(folder, folder.rpartition("/")[0])
    if topic_id != NO_TOPIC_ID:
        log.owed.note_files(f"{folder}/{PARTITION_METADATA}")
    log.producers.clear(start)
    return log
