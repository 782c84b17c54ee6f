"""What a leader knows of its followers: how far each has come, who is in sync, and who should be.

A follower's Fetch says where its log ends, because it asks for what comes next. From that follow two things.
The high watermark is the least log end of the replicas that count, and a follower that has not been at the
leader's end for `replica.lag.time.max.ms` is no longer in sync.

Who is in sync is the controller's to decide: the leader proposes a set (AlterPartition) and goes on with the
larger one until it knows the answer. A replica that is proposed counts for the high watermark at once, since
the controller may elect it before this node hears that it was taken in; one that is to go counts until its
going is committed, since until then it may be elected too. One proposal is under way at a time.

A replica that has caught up but is not in the set yet is waited for as well, or a fast writer would move the
high watermark past it for ever. A set below `min.insync.replicas` moves no high watermark (KIP-966): nothing
is committed by too few, so whoever left the set last is still whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.metadata.directory_id import LOST
from headrace.metadata.topics import PartitionImage

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
class ReplicaContext:
    """What all partitions of a node share of the cluster around them: how long a follower may lag, which
    brokers
    are alive, and whom to tell of a change.

    `broker_epoch` gives the epoch of a broker that is there to be in sync, and None for any other.
    `propose` hears of a partition whose leader has an in-sync set to propose. `has_remote_records` says
    whether anything was ever done in the remote tier.
    """

    lag_ms_max: int = LAG_MS_MAX
    broker_epoch: Callable[[int], int | None] = _any_broker
    propose: "Callable[[Partition], None]" = _tell_nobody
    has_remote_records: Callable[[], bool] = _never
    now_ms: int = 0
    """The time of the last Fetch of any follower: of the clock that never goes back."""
    isr_shrinks: int = 0
    isr_expands: int = 0
    """How often a proposal of this node's has made an in-sync set smaller, and larger."""

    def note_isr_change(self, added: int) -> None:
        if added > 0:
            self.isr_expands += 1
        elif added < 0:
            self.isr_shrinks += 1


NOT_KNOWN: Final = -1
"""A follower's log end before its first Fetch in this epoch, and the broker epoch of one that tells none."""

NEVER: Final = -(2**62)


@dataclass(slots=True)
class FollowerState:
    """One follower, as its Fetch requests show it."""

    log_end: int = NOT_KNOWN
    log_start: int = NOT_KNOWN
    broker_epoch: int = NOT_KNOWN
    caught_up_ms: int = NEVER
    fetched_ms: int = NEVER
    leader_end_then: int = 0
    """Where the leader's log ended at the Fetch before: who has come that far now was caught up then."""
    asked: int = 0
    """The last question that a reply to it has put (`Partition.ask_followers`)."""
    answered: int = 0
    """The last question that it has fetched after."""

    def fetched(
        self, *, offset: int, log_start: int, leader_end: int, broker_epoch: int, now_ms: int
    ) -> None:
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_then and self.fetched_ms != NEVER:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end = offset
        self.log_start = log_start
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms
        self.leader_end_then = leader_end
        self.answered = self.asked

    def is_caught_up(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        return self.log_end == leader_end or now_ms - self.caught_up_ms <= lag_ms_max


class IsrProposal(NamedTuple):
    """An in-sync set for the controller; each replica with the broker epoch it fetched with (KIP-903)."""

    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[tuple[int, int], ...]


class LeaderState:
    """The leader's side of one partition with several replicas, for one leader epoch."""

    __slots__ = (
        "_context",
        "_node_id",
        "_now_ms",
        "epoch_start",
        "followers",
        "isr",
        "lost",
        "maximal_isr",
        "proposed",
    )

    def __init__(
        self,
        image: PartitionImage,
        *,
        node_id: int,
        epoch_start: int,
        context: ReplicaContext,
        now_ms: int,
    ) -> None:
        self._node_id = node_id
        self._context = context
        self._now_ms = now_ms
        self.epoch_start = epoch_start
        self.followers: dict[int, FollowerState] = {}
        self.lost: frozenset[int] = frozenset()
        self.isr: frozenset[int] = frozenset()
        self.proposed: frozenset[int] | None = None
        self.maximal_isr: frozenset[int] = frozenset()
        self.take_on(image)
        for replica in self.isr:
            # Time to be heard of: a new leader knows nothing of anybody.
            if replica in self.followers:
                self.followers[replica].caught_up_ms = now_ms

    def take_on(self, image: PartitionImage) -> None:
        """The controller's word: it ends whatever was proposed before it."""
        followers = self.followers
        self.followers = {
            replica: followers.get(replica) or FollowerState()
            for replica in image.replicas
            if replica != self._node_id
        }
        self.lost = frozenset(each for each in self.followers if image.directory_of(each) == LOST)
        self._commit(frozenset(image.isr))

    def _commit(self, in_sync: frozenset[int]) -> None:
        for replica in in_sync - self.isr:
            follower = self.followers.get(replica)
            if follower is not None and follower.fetched_ms == NEVER:
                follower.caught_up_ms = self._now_ms
        self.isr = self.maximal_isr = in_sync
        self.proposed = None

    # -- how far everybody is --------------------------------------------------------------------------------

    def replicated_to(self, leader_end: int, *, min_in_sync: int) -> int:
        """The least log end of the replicas that count; NOT_KNOWN where too few are in sync to count."""
        if len(self.isr) < min(min_in_sync, len(self.followers) + 1):
            return NOT_KNOWN
        least = leader_end
        for replica, follower in self.followers.items():
            if follower.log_end < least and (
                replica in self.maximal_isr or self._is_joining(replica, follower, leader_end)
            ):
                least = follower.log_end
        return least

    def _is_joining(self, replica: int, follower: FollowerState, leader_end: int) -> bool:
        """Whether a replica that is not in sync will be: the high watermark must not run away from it."""
        return (
            follower.fetched_ms != NEVER
            and follower.is_caught_up(leader_end, self._now_ms, self._context.lag_ms_max)
            and self._is_eligible(replica, follower)
        )

    def _is_eligible(self, replica: int, follower: FollowerState) -> bool:
        """Whether the controller would take it: alive, the very process that fetched, and none that has said
        itself that its replica cannot be used."""
        if replica in self.lost:
            return False
        epoch = self._context.broker_epoch(replica)
        return epoch is not None and follower.broker_epoch in (NOT_KNOWN, epoch)

    def is_followed_since(self, question: int) -> bool:
        """Whether every replica that counts has asked for more after a reply that put this question."""
        return all(
            follower.answered >= question
            for replica, follower in self.followers.items()
            if replica in self.maximal_isr
        )

    def low_watermark(self, log_start: int) -> int:
        """The least log start of the leader and of the followers that are there to be heard of."""
        context = self._context
        starts = [log_start]
        starts += [
            f.log_start for replica, f in self.followers.items() if context.broker_epoch(replica) is not None
        ]
        return min(starts)

    def appended(self, at_offset: int) -> None:
        """The leader's log grew from this offset on: who was there was caught up until now. A follower that
        has everything is not noted again with each of its Fetches.
        """
        now_ms = max(self._now_ms, self._context.now_ms)
        for follower in self.followers.values():
            if follower.log_end == at_offset:
                follower.caught_up_ms = max(follower.caught_up_ms, now_ms)

    def has_enough(self, min_in_sync: int) -> bool:
        """Whether the set, with what is proposed, satisfies `min.insync.replicas` of so many replicas."""
        return len(self.maximal_isr) >= min(min_in_sync, len(self.followers) + 1)

    # -- who is in sync --------------------------------------------------------------------------------------

    def fetched(
        self,
        replica: int,
        *,
        offset: int,
        log_start: int,
        leader_end: int,
        high_watermark: int,
        broker_epoch: int,
        now_ms: int,
    ) -> bool:
        """A follower asked for `offset`. True where a larger in-sync set is proposed by that."""
        self._now_ms = now_ms
        follower = self.followers[replica]
        follower.fetched(
            offset=offset,
            log_start=log_start,
            leader_end=leader_end,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        return replica not in self.maximal_isr and self._maybe_expand_isr(replica, high_watermark)

    def _maybe_expand_isr(self, replica: int, high_watermark: int) -> bool:
        """True where a larger in-sync set is proposed, with a follower that has caught up."""
        follower = self.followers[replica]
        joins = (
            self.proposed is None
            and follower.log_end >= high_watermark
            and follower.log_end >= self.epoch_start
            and self._is_eligible(replica, follower)
        )
        if joins:
            self.proposed = self.maximal_isr = self.isr | {replica}
        return joins

    def maybe_shrink_isr(self, leader_end: int, now_ms: int) -> bool:
        """True where a smaller in-sync set is proposed. It counts once it is committed, and not before."""
        self._now_ms = now_ms
        if self.proposed is not None:
            return False
        lagging = {
            replica
            for replica in self.isr
            if (follower := self.followers.get(replica)) is not None
            and not follower.is_caught_up(leader_end, now_ms, self._context.lag_ms_max)
        }
        if lagging:
            self.proposed = self.isr - lagging
        return bool(lagging)

    def proposal(self, leader_epoch: int, partition_epoch: int) -> IsrProposal | None:
        if self.proposed is None:
            return None
        own = self._context.broker_epoch(self._node_id)
        epochs = {
            replica: follower.broker_epoch
            for replica, follower in self.followers.items()
            if replica in self.proposed
        }
        epochs[self._node_id] = NOT_KNOWN if own is None else own
        return IsrProposal(leader_epoch, partition_epoch, tuple(sorted(epochs.items())))

    def accepted(self, in_sync: frozenset[int]) -> None:
        self._commit(in_sync)

    def withdrawn(self) -> None:
        """The controller would not have it, so it cannot be elected by it: the committed set counts."""
        self._commit(self.isr)
