"""What a consumer wants to read: topics by name, by a pattern, or partitions that it was told.

A pattern is matched by the coordinator where the group's protocol lets it (`wanted`, in RE2's syntax), else
here, against the names in the metadata, by Python's own rules.
"""

import re
from collections.abc import Iterable, Mapping

from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.clients.consuming.listener import RebalanceListener
from headrace.clients.errors import ClientError
from headrace.metadata.topic_names import name_fault
from headrace.wire.schemas.metadata import MetadataResponseTopic


class Subscription:
    """Exactly one of the ways, or none."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.pattern: re.Pattern[str] | None = None
        self.wanted: str | None = None
        self.listener = RebalanceListener()
        self.is_manual = False

    @property
    def is_group(self) -> bool:
        """Whether a group decides which partitions are read."""
        return bool(self.topics) or self.pattern is not None or self.wanted is not None

    def to_names(self, names: Iterable[str], listener: RebalanceListener | None) -> None:
        self._refuse_manual()
        wanted = set(names)
        for name in wanted:
            if (fault := name_fault(name)) is not None:
                raise ClientError(f"no topic can have this name: {fault}; a pattern is given by pattern=")
        self.topics, self.pattern, self.wanted = wanted, None, None
        self.listener = listener or RebalanceListener()

    def to_pattern(self, pattern: str | re.Pattern[str], listener: RebalanceListener | None) -> None:
        self._refuse_manual()
        self.topics, self.pattern, self.wanted = set(), re.compile(pattern), None
        self.listener = listener or RebalanceListener()

    def to_coordinators_pattern(self, pattern: str, listener: RebalanceListener | None) -> None:
        self._refuse_manual()
        self.topics, self.pattern, self.wanted = set(), None, pattern
        self.listener = listener or RebalanceListener()

    def match_here(self) -> None:
        """The coordinator is too old to match a pattern."""
        assert self.wanted is not None
        try:
            self.to_pattern(self.wanted, self.listener)
        except re.error as error:
            what = f"{self.wanted!r} cannot be matched by an older coordinator, nor here"
            raise ClientError(f"{what}: {error}") from None

    def to_partitions(self) -> None:
        if self.is_group:
            raise ClientError("a consumer that subscribes cannot be assigned partitions: unsubscribe first")
        self.is_manual = True

    def clear(self) -> None:
        self.topics, self.pattern, self.wanted, self.is_manual = set(), None, None, False
        self.listener = RebalanceListener()

    def match(self, topics: Mapping[str, MetadataResponseTopic], *, excludes_internal: bool) -> bool:
        """Find the topics of the pattern; whether that changed anything."""
        if self.pattern is None:
            return False
        found = {
            name
            for name, topic in topics.items()
            if self.pattern.fullmatch(name)
            and not (excludes_internal and (topic.is_internal or name in INTERNAL_TOPICS))
        }
        changed, self.topics = found != self.topics, found
        return changed

    def _refuse_manual(self) -> None:
        if self.is_manual:
            raise ClientError("a consumer with assigned partitions cannot subscribe: unsubscribe first")
