"""A producer id and its epoch: how a producer identifies itself to coordinators and logs."""

from typing import Final, NamedTuple

NO_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 2**15 - 1


class ProducerIdAndEpoch(NamedTuple):
    """A request under an older epoch of the same producer id is fenced."""

    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        """No epoch is left to give out: the largest one is kept for fencing."""
        return self.epoch >= EPOCH_MAX - 1


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_ID, NO_EPOCH)
