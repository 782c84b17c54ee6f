"""Batches that a leader refused through no fault of theirs, and what their producers are told meanwhile.

A producer has up to five requests on the wire. Where one is refused because replicas are missing, the disk
is full or the node does not lead yet, those behind it arrive all the same, perhaps when the reason is gone.
To a leader that forgot, the second looks like a gap; of a producer that it does not know yet, it even looks
like a beginning, and the first could never be written any more. librdkafka takes an "out of order" there as
a reason to number everything anew, and writes twice what it had no answer for on other partitions.

So the ones behind get the same answer as the first, until it comes again. Only as many as can have been on
the wire: who gave the first one up must hear of the gap."""

from dataclasses import dataclass
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.records.batch import BatchHeader

BEHIND_MAX: Final = 4
"""What a producer may have on the wire behind a batch."""

PRODUCERS_MAX: Final = 1000
"""The refusals that are remembered: more, and the oldest are forgotten, as by a leader that restarts."""

PASSING: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Reasons that have nothing to do with the batch."""


@dataclass(slots=True)
class Refusal:
    """The first batch that was refused; `behind` is how many more may still be answered like it."""

    epoch: int
    sequence: int
    code: ErrorCode
    behind: int = BEHIND_MAX


class Refusals:
    """Of one partition, by producer."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, Refusal] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def note(self, header: BatchHeader, code: ErrorCode) -> None:
        """A numbered batch that would have been the next of its producer is refused."""
        if code not in PASSING:
            return
        known = self._of.pop(header.producer_id, None)
        if (
            known is not None
            and known.epoch == header.producer_epoch
            and known.sequence != header.base_sequence
        ):
            self._of[header.producer_id] = known  # one behind the first
            return
        if len(self._of) >= PRODUCERS_MAX:
            del self._of[next(iter(self._of))]
        self._of[header.producer_id] = Refusal(header.producer_epoch, header.base_sequence, code)

    def hold_back(self, header: BatchHeader) -> None:
        """ApiError where a batch that is not the next one came behind one that was refused."""
        refusal = self._of.get(header.producer_id)
        if refusal is None or refusal.epoch != header.producer_epoch or refusal.behind == 0:
            return
        if refusal.sequence != header.base_sequence:
            refusal.behind -= 1
            raise ApiError(
                refusal.code,
                f"producer {header.producer_id} sent sequence {header.base_sequence} behind "
                f"{refusal.sequence}, which was refused: send that one again first",
            )

    def forget(self, producer_id: int) -> None:
        """A batch of the producer was written."""
        self._of.pop(producer_id, None)

    def clear(self) -> None:
        self._of.clear()
