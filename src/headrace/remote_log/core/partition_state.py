"""The state machine of one tiered partition: which tasks may start, and when.

A partition is in one of these phases, and `TASKS` says what may start in each:

    FOLLOWER ──leads──> TAKING_OVER ──taken over──> LEADER ──a task failed──────────> LEADER_BACKOFF
                          │      ^                  │    ^──the pause is over──────────────┘
                       failed  the pause is over    ├──a copy did not count──> COPY_PAUSED, for a while
                          v      │                  └──custom metadata too large──> COPY_REFUSED, until
                    TAKE_OVER_BACKOFF                                    the next leadership is taken over

Where several hold, a pause after a failure comes before what is said of copying, and a refusal before a
pause of copying. Losing the leadership leads to FOLLOWER from everywhere, and what is remembered stays: a
leader that comes back after a failure waits as it would have.

Nothing here reads a clock, draws a number or starts anything: `remote_log.tasks` does, and tells what
happened.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple


class TaskKind(Enum):
    """A partition has one task of each kind at most. The values are verbs for log lines."""

    TAKE_OVER = "take over"
    COPY = "copy"
    EXPIRE = "remove"
    COMPACT = "compact"


class PartitionRole(Enum):
    """What this broker is for the partition."""

    FOLLOWER = "follower"
    NEW_LEADER = "new leader"  # it does not know yet what its predecessors did
    LEADER = "leader"


class Phase(Enum):
    """See the module's head."""

    FOLLOWER = "follower"
    TAKING_OVER = "taking over"
    TAKE_OVER_BACKOFF = "take over backoff"
    LEADER = "leader"
    LEADER_BACKOFF = "leader backoff"
    COPY_PAUSED = "copy paused"
    COPY_REFUSED = "copy refused"


TASKS: Final[dict[Phase, tuple[TaskKind, ...]]] = {
    Phase.FOLLOWER: (),
    Phase.TAKING_OVER: (TaskKind.TAKE_OVER,),
    Phase.TAKE_OVER_BACKOFF: (),
    Phase.LEADER: (TaskKind.EXPIRE, TaskKind.COPY, TaskKind.COMPACT),
    Phase.LEADER_BACKOFF: (),
    Phase.COPY_PAUSED: (TaskKind.EXPIRE, TaskKind.COMPACT),
    Phase.COPY_REFUSED: (TaskKind.EXPIRE,),
}
"""What may start in a phase, in the order in which it is started."""

_DOUBLINGS_MAX: Final = 20


class RetryBackoff(NamedTuple):
    """The pause after a failure: `first_ms`, then twice as long each time, `max_ms` at most."""

    first_ms: int
    max_ms: int

    def wait_s(self, failures: int) -> float:
        wait_ms: float = min(self.first_ms * 2.0 ** min(failures - 1, _DOUBLINGS_MAX), self.max_ms)
        return wait_ms / 1000


class ExpirationInput(NamedTuple):
    """What decides on expiration besides the time: changes of it are looked at without waiting."""

    metadata_version: int
    log_start_offset: int
    remote_storage_enable: bool


NOT_LOOKED_AT: Final = ExpirationInput(-1, -1, False)
NEVER_VERSION: Final = -1


@dataclass(slots=True)
class RemotePartitionState:
    """What is remembered of a partition between two looks. Times are those of the event loop."""

    running: set[TaskKind] = field(default_factory=set)
    in_progress: set[bytes] = field(default_factory=set)
    """Ids of copies that a task of this broker is making: nobody else's work, so not to be removed."""

    followed: tuple[int, int] = (NEVER_VERSION, NEVER_VERSION)
    """Versions of the metadata and of the log's epochs by which the log was last told how far it is."""
    is_removing_all: bool = False
    """Remote storage was turned off, and a task removes all copies: none counts, also if it is turned on."""

    _failures: int = 0
    _take_over_at_s: float = 0.0
    _retry_at_s: float = 0.0
    _copy_at_s: float = 0.0
    _is_copy_refused: bool = False
    _expired_with: ExpirationInput = NOT_LOOKED_AT
    _expire_at_s: float = 0.0
    _sweep_at_s: float = 0.0
    _compaction_version: int = NEVER_VERSION
    _replaced_at_s: dict[bytes, float] = field(default_factory=dict)

    # -- phases ----------------------------------------------------------------------------------------------

    def phase(self, role: PartitionRole, now_s: float) -> Phase:
        if role is PartitionRole.FOLLOWER:
            return Phase.FOLLOWER
        if role is PartitionRole.NEW_LEADER:
            return Phase.TAKE_OVER_BACKOFF if now_s < self._take_over_at_s else Phase.TAKING_OVER
        if now_s < self._retry_at_s:
            return Phase.LEADER_BACKOFF
        if self._is_copy_refused:
            return Phase.COPY_REFUSED
        return Phase.COPY_PAUSED if now_s < self._copy_at_s else Phase.LEADER

    def may_start(self, role: PartitionRole, now_s: float) -> list[TaskKind]:
        """The tasks of this phase that are not running."""
        return [kind for kind in TASKS[self.phase(role, now_s)] if kind not in self.running]

    def succeeded(self) -> None:
        """A task came to its end."""
        self._failures = 0

    def failed(self, kind: TaskKind, now_s: float, backoff: RetryBackoff, *, jitter: float) -> None:
        """A task failed; `jitter` is the factor of its pause."""
        self._failures += 1
        again_s = now_s + backoff.wait_s(self._failures) * jitter
        if kind is TaskKind.TAKE_OVER:
            self._take_over_at_s = again_s
        else:
            self._retry_at_s = again_s

    def taken_over(self) -> None:
        """This leadership knows what its predecessors did: look at everything anew."""
        self._is_copy_refused = False
        self._expire_at_s = self._sweep_at_s = 0.0

    def refuse_copies(self) -> None:
        """The store's custom metadata was too large, as the next one would be: Kafka gives up as well."""
        self._is_copy_refused = True

    def pause_copies(self, until_s: float) -> None:
        """A copy did not count, so it would be made again and again."""
        self._copy_at_s = until_s

    # -- what is due -----------------------------------------------------------------------------------------

    def is_expiration_due(self, found: ExpirationInput, now_s: float) -> bool:
        """By the interval, and at once where a leadership, the metadata or the log's start are new, or remote
        storage was turned off or on.
        """
        return now_s >= self._expire_at_s or found != self._expired_with

    def begin_expiration(self, found: ExpirationInput) -> None:
        self._expired_with = found
        self.is_removing_all = not found.remote_storage_enable

    def end_expiration(self, found: ExpirationInput, next_s: float) -> None:
        """Everything that was found is removed; its own records need no look."""
        self._expired_with = found
        self._expire_at_s = next_s

    def is_sweep_due(self, now_s: float) -> bool:
        return now_s >= self._sweep_at_s

    def end_sweep(self, next_s: float) -> None:
        self._sweep_at_s = next_s

    def begin_compaction_look(self, metadata_version: int) -> bool:
        """Whether anything has changed since compaction looked last."""
        is_new = self._compaction_version != metadata_version
        self._compaction_version = metadata_version
        return is_new

    def end_compaction(self) -> None:
        """There may be more to do, or the same again."""
        self._compaction_version = NEVER_VERSION

    def still_read(self, replaced: Iterable[bytes], now_s: float, delay_s: float) -> set[bytes]:
        """Of replaced segments, those that were replaced a moment ago: who reads them may finish, as with
        local files.
        """
        self._replaced_at_s = {each: self._replaced_at_s.get(each, now_s) for each in replaced}
        return {each for each, at_s in self._replaced_at_s.items() if now_s < at_s + delay_s}
