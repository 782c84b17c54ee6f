"""What a consumer's part in its group is, whichever protocol the group speaks.

A membership lives on the loop: heartbeats go out by themselves. What the user must see (partitions given and
taken) happens only inside `poll`, which calls `advance`: the membership then tells the `RebalanceHandler`,
which calls the user's listener.
"""

from collections.abc import Iterable
from typing import Protocol

from headrace.base.ids import TopicPartition
from headrace.clients.internals.consumer.group_coordinator_client import Membership


class RebalanceHandler(Protocol):
    """The consumer, as its membership sees it."""

    @property
    def owned(self) -> set[TopicPartition]:
        """What is assigned now."""
        ...

    @property
    def topics(self) -> set[str]:
        """What is subscribed to."""
        ...

    @property
    def pattern(self) -> str | None:
        """What the coordinator should find topics by."""
        ...

    def match_here(self) -> None:
        """The coordinator cannot: find the pattern's topics by the metadata."""
        ...

    @property
    def last_poll_ms(self) -> int: ...

    async def before_rebalance(self) -> None:
        """Partitions may be taken: commit what auto-commit would."""
        ...

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Give these up in good order: the listener is told before."""
        ...

    async def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """These are somebody else's already."""
        ...

    async def grant(self, partitions: Iterable[TopicPartition]) -> None:
        """These are new: the listener is told, then they are read."""
        ...

    def news(self) -> None:
        """Something changed that a poll should look at."""
        ...


class MembershipManager(Protocol):
    """One protocol's way to be in a group."""

    @property
    def identity(self) -> Membership:
        """For commits."""
        ...

    @property
    def is_out(self) -> bool:
        """Whether this is no member now: not yet, or put out. Then it must not commit: the coordinator of a
        group that is empty would take that for an outsider's wish.
        """
        ...

    def is_still(self, begun: Membership) -> bool:
        """Whether a commit that was begun with this identity may be made with that of now."""
        ...

    @property
    def has_work(self) -> bool:
        """Whether `advance` would do something."""
        ...

    async def advance(self) -> None:
        """Do what has to be done inside a poll; never waits for brokers for long."""
        ...

    def doubt(self) -> None:
        """A commit was refused to a member: ask the coordinator now how things stand."""
        ...

    def subscription_changed(self) -> None: ...

    async def leave(self) -> None:
        """End the membership."""
        ...
