"""The broker that coordinates a group, and the offsets that it keeps."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.errors import (
    ClientError,
    CommitFailedError,
    NoSuchTopicError,
    RebalancingError,
    RefusedError,
    StaleEpochError,
    TimedOutError,
    UnreachableError,
)
from headrace.clients.internals.coordinator_client import CoordinatorClient, CoordinatorKind
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.offsets import OffsetAndMetadata
from headrace.wire.apis import ApiKey
from headrace.wire.schemas import offset_commit, offset_fetch
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

_OUT_OF_GROUP: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


class Membership(NamedTuple):
    """How a member names itself to its coordinator. Without a group: an offset store and no more."""

    generation: int = -1  # or the member epoch
    member_id: str = ""
    instance_id: str | None = None


class ConsumerGroupMetadata(NamedTuple):
    """Who a consumer is in its group, for a producer that commits its offsets in a transaction (KIP-447)."""

    group_id: str
    generation: int = -1  # or the member epoch
    member_id: str = ""
    instance_id: str | None = None


class GroupCoordinatorClient(CoordinatorClient):
    """The coordinator of one group."""

    def __init__(self, client: NetworkClient, group_id: str) -> None:
        super().__init__(client, group_id, CoordinatorKind.GROUP)
        self.group_id = group_id

    # Offsets

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: Callable[[], Membership],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit; CommitFailedError where the group has gone on without this member.

        The member's epoch may rise meanwhile (KIP-848), so it is looked up for every attempt.
        """
        if not offsets:
            return

        async def ask() -> None:
            response = await self.ask(await self._commit_request(offsets, identity()))
            for topic in response.topics:
                name = self._client.metadata.name_of(topic.name, topic.topic_id)
                for result in topic.partitions:
                    self._check_commit(result.error_code, TopicPartition(name, result.partition_index))

        await self.patiently(ask, timeout_ms)

    async def _commit_request(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], membership: Membership
    ) -> OffsetCommitRequest:
        metadata = self._client.metadata
        has_ids = metadata.has_ids({each.topic for each in offsets})
        if await self.version_of(ApiKey.OFFSET_COMMIT) >= offset_commit.TOPIC_ID_SINCE and not has_ids:
            await self._client.refresh(sorted({each.topic for each in offsets}))
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for partition, place in offsets.items():
            topic = topics.setdefault(
                partition.topic,
                OffsetCommitRequestTopic(name=partition.topic, topic_id=metadata.topic_id(partition.topic)),
            )
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=place.offset,
                    committed_leader_epoch=place.leader_epoch,
                    committed_metadata=place.metadata,
                )
            )
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=membership.generation,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            topics=list(topics.values()),
        )

    def not_a_member(self) -> CommitFailedError:
        """For a consumer that knows by itself that it is out of the group, or not in it yet."""
        return self._too_late("not a member")

    def of_an_earlier_generation(self) -> CommitFailedError:
        """For a commit that was begun before the group shared its partitions anew."""
        return CommitFailedError(
            f"cannot commit offsets of group {self.group_id!r} (of an earlier generation): its members have "
            "shared the partitions anew meanwhile; commit what is still assigned again"
        )

    def _too_late(self, reason: str) -> CommitFailedError:
        return CommitFailedError(
            f"cannot commit offsets of group {self.group_id!r} ({reason}): its partitions belong to "
            "another member now; poll more often, or raise max.poll.interval.ms"
        )

    def _check_commit(self, code: int, partition: TopicPartition) -> None:
        if code in _OUT_OF_GROUP or code == ErrorCode.FENCED_INSTANCE_ID:
            raise self._too_late(ErrorCode(code).name.replace("_", " ").lower())
        if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            raise NoSuchTopicError(partition.topic)  # deleted since it was read: trying again is no use
        if code == ErrorCode.STALE_MEMBER_EPOCH:
            raise StaleEpochError(code, f"cannot commit offsets of group {self.group_id!r} now")
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise RebalancingError(code, f"cannot commit offsets of group {self.group_id!r} now")
        self.check(code, f"cannot commit the offset of {partition} in group {self.group_id!r}")

    async def committed(
        self,
        partitions: Iterable[TopicPartition],
        membership: Membership | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out."""
        wanted = sorted(set(partitions))

        async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
            version = await self.version_of(ApiKey.OFFSET_FETCH)
            if version >= offset_fetch.TOPIC_ID_SINCE:
                lacking = {each.topic for each in wanted if not self._client.metadata.has_ids([each.topic])}
                if lacking:
                    await self._client.refresh(sorted(lacking))
            response = await self.ask(self._fetch_request(wanted, membership or Membership(), version))
            group = response.groups[0] if response.groups else response
            self.check(group.error_code, f"cannot read the offsets of group {self.group_id!r}")
            found = {}
            for topic in group.topics:
                name = self._client.metadata.name_of(topic.name, getattr(topic, "topic_id", b""))
                for each in topic.partitions:
                    partition = TopicPartition(name, each.partition_index)
                    self.check(each.error_code, f"cannot read the committed offset of {partition}")
                    if each.committed_offset >= 0:
                        found[partition] = OffsetAndMetadata(
                            each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                        )
            return found

        return await self.patiently(ask, timeout_ms) if wanted else {}

    def _fetch_request(
        self, wanted: list[TopicPartition], membership: Membership, version: int
    ) -> OffsetFetchRequest:
        numbers: dict[str, list[int]] = {}
        for each in wanted:
            numbers.setdefault(each.topic, []).append(each.partition)
        if version < offset_fetch.GROUPS_SINCE:
            topics = [
                OffsetFetchRequestTopic(name=name, partition_indexes=own) for name, own in numbers.items()
            ]
            return OffsetFetchRequest(
                group_id=self.group_id,
                topics=topics,
                require_stable=version >= offset_fetch.REQUIRE_STABLE_SINCE,
            )
        metadata = self._client.metadata
        group = OffsetFetchRequestGroup(
            group_id=self.group_id,
            member_id=membership.member_id or None,
            member_epoch=membership.generation if membership.member_id else -1,
            topics=[
                OffsetFetchRequestTopics(
                    name=name, topic_id=metadata.topic_id(name), partition_indexes=indexes
                )
                for name, indexes in numbers.items()
            ],
        )
        return OffsetFetchRequest(groups=[group], require_stable=True)


def may_pass(error: ClientError) -> bool:
    """Whether a request to the coordinator may succeed later, with the membership of then."""
    if isinstance(error, RefusedError):
        return error.retriable or error.code in _OUT_OF_GROUP or error.code == ErrorCode.STALE_MEMBER_EPOCH
    return isinstance(error, UnreachableError | TimedOutError)
