"""The plain Python twins of compaction's kernels, with the names of `kernels_cleaning_compiled`.

They stand in until numba is loaded, and are what the compiled kernels are tested against.
"""

from headrace.records.kernels_cleaning_mapping_plain import crc32c, map_batch, map_batches, new_table
from headrace.records.kernels_cleaning_packed_plain import (
    gather_packed,
    keep_packed,
    map_packed,
    put_packed,
    split_bodies,
)
from headrace.records.kernels_cleaning_rewriting_plain import (
    clean_batches,
    empty,
    keep_records,
    note_batch,
    place_of,
    shift_records,
)
from headrace.records.kernels_cleaning_runs_plain import count_live, plan_spans

__all__ = [
    "clean_batches",
    "count_live",
    "crc32c",
    "empty",
    "gather_packed",
    "keep_packed",
    "keep_records",
    "map_batch",
    "map_batches",
    "map_packed",
    "new_table",
    "note_batch",
    "place_of",
    "plan_spans",
    "put_packed",
    "shift_records",
    "split_bodies",
]
