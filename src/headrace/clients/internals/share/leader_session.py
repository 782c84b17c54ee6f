"""A share consumer's session with one leader: which partitions it knows of, and what the next request says.

The first request opens the session with all partitions; later ones name those that came, went or are answered
for. Requests of a session are numbered and follow each other, so there is one at a time (`turn`).
"""

import asyncio
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.clients.internals.metadata import Metadata
from headrace.clients.internals.share.acknowledgements import Answers, ranges_of
from headrace.wire.schemas import share_acknowledge, share_fetch
from headrace.wire.schemas.share_acknowledge import AcknowledgePartition, AcknowledgeTopic
from headrace.wire.schemas.share_fetch import AcknowledgeType, FetchPartition, FetchTopic, ForgottenTopic

OPEN: Final = 0
CLOSE: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class LeaderSession:
    """With the leader `node`."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.epoch = OPEN
        self.known: set[TopicPartition] = set()
        self.turn = asyncio.Lock()
        self.fetching: asyncio.Task[None] | None = None

    @property
    def is_new(self) -> bool:
        return self.epoch == OPEN

    def went_on(self) -> None:
        """The leader took a request."""
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def reset(self) -> None:
        """The leader does not know the session, or may not: what it held for this member is free again."""
        self.epoch = OPEN
        self.known = set()

    def fetch_topics(
        self, wanted: set[TopicPartition], answers: Answers, metadata: Metadata
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """What a fetch says of partitions: what is new or answered for, and what is not wanted any more."""
        named = (wanted - self.known) | answers.keys()
        topics: dict[bytes, FetchTopic] = {}
        for each in sorted(named):
            topic_id = metadata.topic_id(each.topic)
            batches = [share_fetch.AcknowledgementBatch(*run) for run in ranges_of(answers.get(each, {}))]
            topic = topics.setdefault(topic_id, FetchTopic(topic_id))
            topic.partitions.append(FetchPartition(each.partition, batches))
        forgotten: dict[bytes, ForgottenTopic] = {}
        for each in sorted(self.known - wanted):
            topic_id = metadata.topic_id(each.topic)
            forgotten.setdefault(topic_id, ForgottenTopic(topic_id)).partitions.append(each.partition)
        return list(topics.values()), list(forgotten.values())


def acknowledge_topics(answers: Answers, metadata: Metadata) -> list[AcknowledgeTopic]:
    """Answers alone, as ShareAcknowledge has them."""
    topics: dict[bytes, AcknowledgeTopic] = {}
    for each in sorted(answers):
        topic_id = metadata.topic_id(each.topic)
        batches = [share_acknowledge.AcknowledgementBatch(*run) for run in ranges_of(answers[each])]
        topic = topics.setdefault(topic_id, AcknowledgeTopic(topic_id))
        topic.partitions.append(AcknowledgePartition(each.partition, batches))
    return list(topics.values())


def renews(answers: Answers) -> bool:
    """Whether a record's lock is to be renewed, which a request must say (KIP-1222)."""
    return any(kind == AcknowledgeType.RENEW for each in answers.values() for kind in each.values())
