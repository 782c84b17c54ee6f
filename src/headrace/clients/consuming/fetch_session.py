"""An incremental fetch session with one broker (KIP-227): say what changed, not everything.

A core. The first request of a session names all partitions (epoch 0); the broker remembers them under an id,
and later requests name only those that are new, moved or gone, with the next epoch. Any doubt (a lost
connection, an error of the session) begins a new one.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Wanted(NamedTuple):
    """What to fetch of a partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    bytes_max: int


class FetchSession:
    """The session with one broker, as this side knows it."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, Wanted]) -> None:
        """Put into a request what the broker has to hear to fetch exactly these partitions."""
        request.session_id, request.session_epoch = self._id, self._epoch
        is_full = self._epoch == _FIRST_EPOCH
        told = {} if is_full else self._known
        topics: dict[str, FetchTopic] = {}
        for partition, want in wanted.items():
            if told.get(partition) == want:
                continue
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=want.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=want.leader_epoch,
                    fetch_offset=want.offset,
                    partition_max_bytes=want.bytes_max,
                )
            )
        request.topics = list(topics.values())
        forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
        for partition, had in told.items():
            now = wanted.get(partition)
            if now is None or now.topic_id != had.topic_id:
                gone = forgotten.setdefault(
                    (partition.topic, had.topic_id),
                    ForgottenTopic(topic=partition.topic, topic_id=had.topic_id),
                )
                gone.partitions.append(partition.partition)
        request.forgotten_topics_data = list(forgotten.values())
        self._known = dict(wanted)

    def answered(self, error: int, session_id: int) -> bool:
        """Take in an answer's session; False where it is an error and the answer holds nothing."""
        if error:
            self.lost(keeps_id=error not in _SESSION_ERRORS)
            return False
        if session_id == NO_SESSION:
            self.lost()
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch >= _EPOCH_MAX else self._epoch + 1
        return True

    def lost(self, *, keeps_id: bool = False) -> None:
        """The next request begins a new session; with its id it also closes the old one."""
        if not keeps_id:
            self._id = NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known = {}
