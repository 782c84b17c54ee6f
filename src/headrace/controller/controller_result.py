"""What deciding gives: records to write, and the reply to give once they are committed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.metadata.image import MetadataRecord

Reply = TypeVar("Reply")

RECORDS_PER_REQUEST_MAX: Final = 10_000
"""A request that would write more is refused: its records must fit one batch, and its replay holds up all
others.
"""


PartitionChangeQuota: TypeAlias = Callable[[int], None]
"""Told how many partitions are about to be made or removed for a client; ApiError where it may not."""


def no_quota(partitions: int) -> None:
    """Whoever asks may change as many as it likes."""


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[Reply]):
    """Nothing has changed yet: `records` change the image when they are replayed, and only then."""

    records: Sequence[MetadataRecord]
    reply: Reply


def check_size(records: Sequence[MetadataRecord]) -> None:
    """POLICY_VIOLATION for a request of a client that asks for too much at once."""
    if len(records) > RECORDS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request means {len(records)} changes, at most {RECORDS_PER_REQUEST_MAX} are made at once: "
            "spread them over several requests",
        )
