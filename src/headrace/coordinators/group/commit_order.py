"""Commits that come too late: sent over a connection that their member has given up since.

A client whose request is not answered in time closes the connection and commits again, then further on, over
a new one. What it sent first may still be under way: its kernel goes on sending it when the network is back.
Nothing in such a commit tells that it is old, as member and generation are right, and Apache Kafka takes it:
the group's committed offset goes back. Here a member's connections are known by when they were opened. A
commit that would go back, over a connection older than one that its member has committed over, is not made.

Going back as such is a member's right, and so is the use of several connections: only both together are
suspect. The answer to an abandoned connection is its end; a client that does still use it repeats the commit
over a new one, and is heard.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.coordinators.group.classic_records import OffsetToCommit
from headrace.coordinators.group.offsets import CommittedOffset

# Former members are forgotten when there are this many more of them than members.
FORMER_MAX: Final = 100


class CommitOrder:
    """When the newest connection was opened over which each member of a group has committed."""

    def __init__(self) -> None:
        self._opened: dict[str, dict[str, float]] = {}

    def is_overtaken(
        self,
        group_id: str,
        member_id: str,
        opened_at: float,
        commits: Iterable[OffsetToCommit],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> bool:
        """Whether a commit over a connection that was opened then is one of those."""
        if opened_at >= self._opened.get(group_id, {}).get(member_id, opened_at):
            return False
        return any(
            each.topic_partition in committed and each.offset < committed[each.topic_partition].offset
            for each in commits
        )

    def note(self, group_id: str, member_id: str, opened_at: float, members: Collection[str]) -> None:
        """A member commits over this connection; `members` are all there are."""
        opened = self._opened.setdefault(group_id, {})
        opened[member_id] = max(opened_at, opened.get(member_id, opened_at))
        if len(opened) > len(members) + FORMER_MAX:
            self._opened[group_id] = {each: at for each, at in opened.items() if each in members}

    def forget(self, group_id: str) -> None:
        """The group is no more."""
        self._opened.pop(group_id, None)
