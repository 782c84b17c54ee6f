"""Making a segment's files, and marking them as deleted."""

from headrace.log.file_names import DELETED, INDEX, SEGMENT_SUFFIXES, TIME_INDEX, TXN_INDEX
from headrace.log.segment import Segment
from headrace.log.storage import Storage
from headrace.settings.topic import TopicConfig


def create_segment(
    storage: Storage, folder: str, base_offset: int, *, config: TopicConfig, now_ms: int
) -> Segment:
    """A new, empty, active segment; files of that name that lie about are cut."""
    segment = Segment(
        storage, folder, base_offset, size=0, config=config, created_ms=now_ms, has_index_files=False
    )
    file = storage.disk.open(segment.path, create=True)
    file.truncate(0)
    for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
        storage.disk.remove(segment.stem + suffix)
    if config.preallocate:
        file.preallocate(config.segment_bytes)
    segment.reset()
    return segment


def mark_deleted(storage: Storage, segment: Segment) -> list[str]:
    """Rename the files to `.deleted`, so that a crash finishes the work, and return their new paths."""
    renamed = []
    for suffix in SEGMENT_SUFFIXES:
        path = segment.stem + suffix
        if suffix != TXN_INDEX or segment.indexes.has_aborted:
            try:
                storage.disk.rename(path, path + DELETED)
            except FileNotFoundError:
                continue
            renamed.append(path + DELETED)
    segment.release()
    segment.indexes.release()
    return renamed
