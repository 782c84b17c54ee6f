"""Which kernels compaction calls, and what their codes say of batches that are damaged.

The compiled ones serve as soon as they are loaded, their plain twins until then.
"""

from typing import Any, Final

from headrace.base.errors import InvalidBytesError
from headrace.records import kernels_cleaning_plain
from headrace.records.cleaning_layout import Code
from headrace.records.header import CODEC_MASK, CONTROL, TRANSACTIONAL, BatchHeader
from headrace.records.kernel_choice import kernels

OTHERS: Final = CODEC_MASK | TRANSACTIONAL | CONTROL
"""Batches that the kernels hand back."""

_FLAWS: Final = {
    Code.BAD_HEADER: "has no batch's header",
    Code.BAD_CRC: "has a batch whose CRC does not match",
    Code.BAD_RECORD: "has a batch with a record that cannot be read",
}


def chosen() -> Any:
    """A module of kernels."""
    if kernels.compiled:
        from headrace.records import kernels_cleaning_compiled  # at the first call: most processes need none

        return kernels_cleaning_compiled
    return kernels_cleaning_plain


class BadBatchError(InvalidBytesError):
    """A batch is damaged; `at` is where it is in the bytes that were given."""

    def __init__(self, code: int, at: int) -> None:
        self.at = at
        self.flaw = _FLAWS[Code(code)]
        super().__init__(f"byte {at} {self.flaw}")


def bad_record(header: BatchHeader) -> InvalidBytesError:
    return InvalidBytesError(f"offset {header.base_offset} {_FLAWS[Code.BAD_RECORD]}")
