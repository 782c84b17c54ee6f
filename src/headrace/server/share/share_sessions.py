"""Share sessions (KIP-932): which partitions a member reads from this node, so that both sides only say what
changed.

A member opens its session with epoch 0 and sends 1, 2, 3 … after that; -1 closes it. An epoch that is not the
expected one means that a request or a reply was lost: the member opens another. A session ends with its
connection, too. Their number is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, epoch_after

PartitionId: TypeAlias = tuple[bytes, int]

INVALID_EPOCH: Final = ErrorCode.INVALID_SHARE_SESSION_EPOCH


class ShareSession:
    """What one member reads. `ever_read` has all it may hold records of."""

    __slots__ = ("connection", "epoch", "ever_read", "group_id", "member_id", "partitions")

    def __init__(self, group_id: str, member_id: str, connection: object) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = epoch_after(INITIAL_EPOCH)  # the next one that must come
        self.partitions: dict[PartitionId, None] = {}
        self.ever_read: dict[PartitionId, None] = {}

    def change(self, added: Iterable[PartitionId], forgotten: Iterable[PartitionId]) -> None:
        for each in added:
            self.partitions[each] = self.ever_read[each] = None
        for each in forgotten:
            self.partitions.pop(each, None)

    def to_end(self, read: Iterable[PartitionId]) -> None:
        """Partitions that gave records come last next time, so that none is kept waiting by others."""
        for each in read:
            if each in self.partitions:
                del self.partitions[each]
                self.partitions[each] = None


class ShareSessionCache:
    """The sessions of a node, by group and member."""

    def __init__(self, sessions_max: int) -> None:
        self.sessions_max = sessions_max
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_group: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions they read, all of them together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, group_id: str, member_id: str, connection: object) -> ShareSession:
        """Begin a session; one that the member had is forgotten."""
        key = (group_id, member_id)
        if key not in self._sessions and len(self._sessions) >= self.sessions_max:
            raise ApiError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"{self.sessions_max} share sessions are open (group.share.max.share.sessions)",
            )
        before = self._sessions.get(key)
        self._of_group[group_id] += before is None
        session = self._sessions[key] = ShareSession(group_id, member_id, connection)
        if before is not None:
            session.ever_read.update(before.ever_read)
        return session

    def go_on(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session that a request goes on with, or ends."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise ApiError(INVALID_EPOCH)
        session.epoch = epoch_after(epoch)
        return session

    def is_open(self, session: ShareSession) -> bool:
        return self._sessions.get((session.group_id, session.member_id)) is session

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self._of_group[group_id] -= 1
            if not self._of_group[group_id]:
                del self._of_group[group_id]
        return session

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return group_id in self._of_group

    def of_connection(self, connection: object) -> list[ShareSession]:
        return [each for each in self._sessions.values() if each.connection is connection]
