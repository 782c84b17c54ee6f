"""Records with the version that the cluster has agreed to write them in: what raft appends and snapshots
hold.
"""

from collections.abc import Iterable, Iterator

from headrace.metadata.image import ClusterImage, MetadataRecord
from headrace.metadata.record_versions import OF_PARTITIONS, record_version
from headrace.metadata.snapshot import snapshot_records
from headrace.raft.records import Entry
from headrace.wire.schemas.metadata_records import FeatureLevelRecord, PartitionRecord


def versioned(records: Iterable[MetadataRecord], features: dict[str, int]) -> Iterator[Entry]:
    """Each record in the version that holds at its place: a change of a level counts for what follows it."""
    levels = dict(features)
    of_partitions = record_version(PartitionRecord(), levels)
    for record in records:
        kind = type(record)
        if kind in OF_PARTITIONS:
            yield Entry(record, of_partitions)
            continue
        if kind is FeatureLevelRecord:
            levels[record.name] = record.feature_level
            of_partitions = record_version(PartitionRecord(), levels)
        yield Entry(record, record_version(record, levels))


def entries_of_image(image: ClusterImage) -> Iterator[Entry] | None:
    """A snapshot of an image as it is now; None in the middle of a metadata transaction."""
    if image.in_transaction:
        return None
    frozen = image.copy()
    return versioned(snapshot_records(frozen), frozen.features)
