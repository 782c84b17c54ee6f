"""When a consumer's metadata is asked for anew: after errors that say so, and by age.

Whoever meets a sign that the metadata is old says `spoil`. A refresh that does not find all that is needed (a
topic that is not there yet, a partition without a leader) leaves it spoiled, and the next one waits longer.
"""

from collections.abc import Callable, Iterable

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.clients.cluster_client import ClusterClient
from headrace.clients.errors import ClientError, RefusedError


class Freshness:
    """The metadata of one consumer's topics."""

    def __init__(self, cluster: ClusterClient, *, on_news: Callable[[], None]) -> None:
        self._cluster = cluster
        self._on_news = on_news
        self._age_ms_max = cluster.config.int("metadata.max.age.ms")
        self._creates = cluster.config.bool("allow.auto.create.topics")
        self._is_spoiled = True
        self._asked_ms = 0
        self._failures = 0
        self.retry_at_ms = 0.0  # 0 where no failed refresh waits for its repetition
        self.trouble: ClientError | None = None  # why nothing comes, for a person who waits

    def spoil(self) -> None:
        """The metadata is wrong, or too little is known."""
        if not self._is_spoiled:
            self._is_spoiled = True
            self._on_news()

    @property
    def is_due(self) -> bool:
        """Whether to ask now."""
        now_ms = self._cluster.world.now_ms()
        is_old = self._asked_ms > 0 and now_ms - self._asked_ms >= self._age_ms_max
        return (self._is_spoiled or is_old) and now_ms >= self.retry_at_ms

    async def refresh(
        self, topics: set[str], partitions: Callable[[], Iterable[TopicPartition]], *, everything: bool
    ) -> None:
        """Ask for these topics, or for all there are."""
        self._is_spoiled = False
        self.trouble = None
        try:
            await self._cluster.refresh(
                None if everything else sorted(topics), create=self._creates and not everything
            )
        except ClientError as error:
            self.trouble = error
            self._is_spoiled = True
        self._asked_ms = self._cluster.world.now_ms()
        lacking = self._lacking(topics, partitions())
        if lacking is not None:
            self._is_spoiled = True
            self.trouble = self.trouble or lacking
        self._failures = self._failures + 1 if self._is_spoiled else 0
        self.retry_at_ms = 0.0
        if self._is_spoiled:
            self.retry_at_ms = self._asked_ms + self._cluster.retry.wait_ms(self._failures)

    def _lacking(self, topics: Iterable[str], partitions: Iterable[TopicPartition]) -> ClientError | None:
        """What a consumer of these would have to wait for."""
        view = self._cluster.view
        for name in topics:
            if not view.partition_count(name):
                code = view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return RefusedError(code, f"topic {name!r}")
        for each in partitions:
            if view.leader(each).node == NO_LEADER:
                return RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, f"cannot read {each}")
        return None
