"""The words of the raft core: what members say to each other, what a member must remember, what it must do.

A message names the node it goes to. What comes from the wire is made into one of these by the driver's side
(`raft/drivers/network_channel.py`), and the other way round.
"""

from dataclasses import dataclass
from typing import Final

from headrace.base.ids import NO_LEADER

NO_DIRECTORY: Final = bytes(16)
NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What must survive a crash: the epoch, and whom this node knows or wants as its leader."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted_id: int = NOBODY
    voted_directory_id: bytes = NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far a log reaches: the epoch of its last record and the offset after it. Later epochs win."""

    epoch: int = 0
    offset: int = 0

    def reaches(self, other: "LogEnd") -> bool:
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A candidate asks `to` for its vote; before that (`pre_vote`) whether it would get it (KIP-996)."""

    to: int
    epoch: int
    candidate_id: int
    candidate_directory_id: bytes
    log_end: LogEnd
    pre_vote: bool = False


@dataclass(frozen=True, slots=True)
class VoteReply:
    """`sender` grants or refuses; `leader_id` names the epoch's leader where it knows one."""

    to: int
    sender: int
    epoch: int
    granted: bool
    leader_id: int = NO_LEADER
    pre_vote: bool = False


@dataclass(frozen=True, slots=True)
class EpochBegan:
    """The leader of an epoch makes itself known to `to`."""

    to: int
    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """The leader of an epoch gives it up, and would like the first of `successors` to lead the next."""

    to: int
    epoch: int
    leader_id: int
    successors: tuple[int, ...] = ()


Message = VoteRequest | VoteReply | EpochBegan | EpochEnded


@dataclass(frozen=True, slots=True)
class RaftEpochStart:
    """The leader must append the record of its election, by these voters."""

    epoch: int
    granted_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """What the driver must do, in field order."""

    persist: ElectionState | None = None  # fsync BEFORE anything else
    append: RaftEpochStart | None = None
    send: tuple[Message, ...] = ()
    committed_to: int | None = None  # the high watermark: records below it may be replayed and answered


NOTHING: Final = Effects()
