"""What the attacked broker holds: topics and groups by the thousand, made once for each broker."""

import struct

from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.compat.attacks.wire import ask, connect, frame, receive

TOPICS_AT_ONCE = 500
GROUPS_AT_ONCE = 200


class Stored:
    """Makes what an attack needs, unless it is there."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._topics: set[str] = set()
        self._groups = 0

    def topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        self._make([name], partitions, settings)

    def topics(self, count: int) -> None:
        """Topics `many-0` and so on, of one partition."""
        names = [f"many-{number:05}" for number in range(count)]
        for first in range(0, count, TOPICS_AT_ONCE):
            self._make(names[first : first + TOPICS_AT_ONCE], 1, {})

    def _make(self, names: list[str], partitions: int, settings: dict[str, str]) -> None:
        configs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
        wanted = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
            for name in names
            if name not in self._topics
        ]
        if wanted:
            reply = ask(self._bootstrap, CreateTopicsRequest(topics=wanted, timeout_ms=120_000), 2)
            assert struct.unpack_from(">i", reply, 8)[0] == len(wanted)
            self._topics |= set(names)

    def coordinators(self) -> None:
        """Those of groups and transactions: their topics are made at the first question."""
        for key_type in (0, 1):
            for _ in range(100):
                reply = ask(self._bootstrap, FindCoordinatorRequest(key="group-0", key_type=key_type), 1)
                if not struct.unpack_from(">h", reply, 8)[0]:
                    break

    def groups(self, count: int) -> None:
        """Groups of which nothing is there but an offset."""
        self.topic("committed")
        self.coordinators()
        with connect(self._bootstrap) as own:
            for first in range(self._groups, count, GROUPS_AT_ONCE):
                for number in range(first, min(first + GROUPS_AT_ONCE, count)):
                    own.sendall(frame(_commit(f"group-{number}", "committed", 1), 2))
                for _ in range(first, min(first + GROUPS_AT_ONCE, count)):
                    receive(own)
        self._groups = max(self._groups, count)

    def commits(self, group: str, topic: str, partitions: int) -> None:
        """A group with an offset in each of a topic's partitions."""
        self.topic(topic, partitions)
        for first in range(0, partitions, 1000):
            ask(self._bootstrap, _commit(group, topic, partitions, first), 2)


def _commit(group: str, topic: str, partitions: int, first: int = 0) -> OffsetCommitRequest:
    committed = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=0)
        for index in range(first, min(partitions, first + 1000))
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=committed)],
    )
