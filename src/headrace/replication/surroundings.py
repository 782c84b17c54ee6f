"""What all partitions of a node share of the cluster around them: how long a follower may lag, which brokers
are alive, and whom to tell of a change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.replication.partition import Partition

LAG_MS_MAX: Final = 30_000  # Kafka's replica.lag.time.max.ms


def _any_broker(broker_id: int) -> int | None:
    return -1


def _tell_nobody(partition: "Partition") -> None:
    pass


def _never() -> bool:
    return False


@dataclass(slots=True)
class ReplicaSurroundings:
    """`broker_epoch` gives the epoch of a broker that is there to be in sync, and None for any other.
    `propose` hears of a partition whose leader has an in-sync set to propose. `has_remote_records` says
    whether anything was ever done in the remote tier.
    """

    lag_ms_max: int = LAG_MS_MAX
    broker_epoch: Callable[[int], int | None] = _any_broker
    propose: "Callable[[Partition], None]" = _tell_nobody
    has_remote_records: Callable[[], bool] = _never
    now_ms: int = 0
    """The time of the last Fetch of any follower: of the clock that never goes back."""
