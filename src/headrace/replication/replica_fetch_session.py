"""The follower's half of a fetch session (KIP-227): what the leader was told, so that only changes are told.

The leader's half is `server/fetch_sessions.py`. A session opens with a request that names everything; then
each names what is new, what is wanted from elsewhere, and what is not wanted any more. Keys that may have
changed are noted (`look_at`), so that a request costs what changed and not what is followed.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from headrace.base.ids import TopicId
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

Key: TypeAlias = tuple[TopicId, int]
"""A partition by its topic's id: a deleted topic's successor is another."""

_EPOCH_MAX: Final = 2**31 - 1


class FetchPosition(NamedTuple):
    """What is asked of a partition: from where on, and what the follower knows."""

    offset: int
    last_epoch: int
    leader_epoch: int
    log_start: int


class SentPosition(NamedTuple):
    """A wish as the leader has it, and the number of the request that told it."""

    position: FetchPosition
    number: int


class ReplicaFetchSession:
    """One session, from its opening until an error ends it."""

    __slots__ = ("_changed", "_epoch", "id", "is_open", "is_refused", "sent")

    def __init__(self) -> None:
        self.id = 0
        self.is_open = False
        self.is_refused = False
        """The leader has no room for it: every request names everything, and waits as usual."""
        self._epoch = 0
        self.sent: dict[Key, SentPosition] = {}
        self._changed: dict[Key, None] = {}

    def look_at(self, key: Key) -> None:
        """What is wanted of this partition may have changed."""
        self._changed[key] = None

    def fill(
        self,
        request: FetchRequest,
        everything: Iterable[Key],
        position_of: Callable[[Key], FetchPosition | None],
        *,
        number: int,
        partition_bytes: int,
    ) -> bool:
        """Write what is wanted into a request; False where nothing is, and nothing needs to be asked."""
        keys = list(self._changed) if self.is_open else list(everything)
        if not self.is_open:
            self.sent.clear()
        wanted: dict[TopicId, list[FetchPartition]] = {}
        forgotten: dict[TopicId, list[int]] = {}
        for key in keys:
            position, sent = position_of(key), self.sent.get(key)
            topic_id, index = key
            if position is None:
                if sent is not None:
                    del self.sent[key]
                    forgotten.setdefault(topic_id, []).append(index)
            elif sent is None or sent.position != position:
                self.sent[key] = SentPosition(position, number)
                wanted.setdefault(topic_id, []).append(_partition(index, position, partition_bytes))
        if not self.sent:
            # The leader forgets a session without partitions, and so do we.
            self.id = self._epoch = 0
            self.is_open = False
            return False
        self._changed.clear()
        request.session_id, request.session_epoch = self.id, self._epoch
        request.topics = [FetchTopic(topic_id=topic, partitions=each) for topic, each in wanted.items()]
        request.forgotten_topics_data = [
            ForgottenTopic(topic_id=topic, partitions=each) for topic, each in forgotten.items()
        ]
        if self.is_open:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True

    def opened(self, session_id: int) -> None:
        """The answer to a request that named everything."""
        self.is_refused = session_id == 0
        if session_id:
            self.id, self._epoch, self.is_open = session_id, 1, True


def _partition(index: int, position: FetchPosition, partition_bytes: int) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        log_start_offset=position.log_start,
        partition_max_bytes=partition_bytes,
    )
