"""The administrator's two faces: `AsyncAdmin` on a loop, `Admin` for everybody else.

with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    admin.create_topic("orders", partitions=6)
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.administering import brokers, configs, groups, quorum, reassignments, topics
from headrace.clients.administering.transaction_faces import AsyncTransactionAdmin, TransactionAdmin
from headrace.clients.background import Background
from headrace.clients.cluster_client import ClusterClient
from headrace.clients.configuration import ClientConfig
from headrace.clients.consuming.coordinator import OffsetAndMetadata
from headrace.clients.errors import ClientError
from headrace.clients.offset_lookup import FoundOffset, find_offsets
from headrace.clients.setting_tables import ADMIN
from headrace.clients.world import World, system_world


def _world(loop: asyncio.AbstractEventLoop, config: ClientConfig) -> World:
    return system_world(
        loop,
        send_buffer_bytes=config.int("send.buffer.bytes"),
        receive_buffer_bytes=config.int("receive.buffer.bytes"),
    )


class AsyncAdmin(AsyncTransactionAdmin):
    """Asks and changes a cluster, on an event loop."""

    def __init__(
        self, settings: Mapping[str, Any] | None = None, *, world: World | None = None, **more: Any
    ) -> None:
        config = ClientConfig(ADMIN, settings, **more)
        self.cluster = ClusterClient(world or _world(asyncio.get_running_loop(), config), config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.cluster.close()

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> topics.TopicSummary:
        """Make a topic and wait until it can be used; -1 leaves a number to the cluster."""
        return await topics.create_topic(
            self.cluster,
            name,
            partitions=partitions,
            replication=replication,
            configs=settings,
            validate_only=validate_only,
        )

    async def list_topics(self) -> list[topics.TopicSummary]:
        """All topics, by name."""
        return await topics.list_topics(self.cluster)

    async def describe_topics(self, names: Sequence[str]) -> list[topics.TopicDescription]:
        """These topics, partition by partition; NoSuchTopicError for one that is not there."""
        return await topics.describe_topics(self.cluster, names)

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; the first that cannot be deleted is named in the error."""
        await topics.delete_topics(self.cluster, names)

    async def create_partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions; `count` is how many it has afterwards."""
        await topics.create_partitions(self.cluster, name, count)

    async def describe_configs(
        self, kind: configs.ResourceKind, name: str, *, docs: bool = False
    ) -> list[configs.ConfigValue]:
        """All settings of a topic, broker or group, by name."""
        return await configs.describe_configs(self.cluster, kind, name, docs=docs)

    async def alter_configs(
        self,
        kind: configs.ResourceKind,
        name: str,
        *,
        set_to: Mapping[str, str],
        delete: Iterable[str] = (),
    ) -> None:
        """Change some settings, and take others back to their default."""
        await configs.alter_configs(self.cluster, kind, name, set_to=set_to, delete=delete)

    async def describe_cluster(self) -> brokers.ClusterDescription:
        """The brokers, fenced ones too where the broker that is asked can tell."""
        return await brokers.describe_cluster(self.cluster)

    async def describe_log_dirs(self, node_id: int) -> list[brokers.LogDirDescription]:
        """The folders of a broker, and what each of its partitions takes there."""
        return await brokers.describe_log_dirs(self.cluster, node_id)

    async def describe_quorum(self) -> quorum.QuorumDescription:
        """Who decides about the cluster's metadata, and how far each has read it."""
        return await quorum.describe_quorum(self.cluster)

    async def add_voter(
        self, node_id: int, directory_id: str, endpoints: Sequence[quorum.VoterEndpoint]
    ) -> None:
        """Let a controller vote that follows the metadata log: one with this directory, found there."""
        await quorum.add_voter(self.cluster, node_id, directory_id, list(endpoints))

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        """Let a voter only follow from now on."""
        await quorum.remove_voter(self.cluster, node_id, directory_id)

    async def find_offsets(
        self, times: Mapping[TopicPartition, int], *, is_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset]:
        """Each partition's first offset at or after its time, or the one at a `Place`.

        With `is_committed` a partition ends at its last stable offset.
        """
        return await find_offsets(self.cluster, times, is_committed=is_committed)

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[groups.GroupSummary]:
        """All groups of these states and types, by name; the cases of letters do not matter."""
        return await groups.list_groups(self.cluster, states=states, types=types)

    async def describe_group(self, group_id: str) -> groups.GroupDescription:
        """A classic or consumer group and its members; NoSuchGroupError where there is none."""
        return await groups.describe_group(self.cluster, group_id)

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """All that a group has committed; nothing for a group that is not there."""
        return await groups.group_offsets(self.cluster, group_id)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these partitions end; those that are gone or have no leader now are left out."""
        return await groups.end_offsets(self.cluster, partitions)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Write offsets of a group without members; a group that is not there is made."""
        await groups.alter_offsets(self.cluster, group_id, offsets)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        await groups.delete_group(self.cluster, group_id)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed of partitions that none of its members reads now."""
        await groups.delete_offsets(self.cluster, group_id, partitions)

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ClientError]:
        """Begin to move partitions to these replicas, or (None) stop moving them; what failed, and why."""
        return await reassignments.reassign(self.cluster, targets)

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, reassignments.Reassignment]:
        """Reassignments under way, of these partitions or of all."""
        return await reassignments.list_reassignments(self.cluster, partitions)

    async def move_to_log_dirs(
        self, node_id: int, paths: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ErrorCode]:
        """Have a broker move replicas of its own to these folders of its own; what it refused."""
        return await reassignments.move_to_log_dirs(self.cluster, node_id, paths)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Have first replicas lead again, or (unclean) any replica at all; what could not be done, and
        why.
        """
        return await reassignments.elect_leaders(self.cluster, partitions, unclean=unclean)


class Admin(TransactionAdmin):
    """Asks and changes a cluster. Every call is `AsyncAdmin`'s of the same name, waited for."""

    def __init__(self, settings: Mapping[str, Any] | None = None, **more: Any) -> None:
        config = ClientConfig(ADMIN, settings, **more)
        self._background = Background("headrace-admin")
        with self._background.closed_on_error():
            self._async: AsyncAdmin = AsyncAdmin(config.given, world=_world(self._background.loop, config))
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with contextlib.closing(self._background):
                self._background.loop.call_soon_threadsafe(self._async.close)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> topics.TopicSummary:
        """Make a topic and wait until it can be used; -1 leaves a number to the cluster."""
        return self._background.run(
            self._async.create_topic(
                name,
                partitions=partitions,
                replication=replication,
                settings=settings,
                validate_only=validate_only,
            )
        )

    def list_topics(self) -> list[topics.TopicSummary]:
        """All topics, by name."""
        return self._background.run(self._async.list_topics())

    def describe_topics(self, names: Sequence[str]) -> list[topics.TopicDescription]:
        """These topics, partition by partition; NoSuchTopicError for one that is not there."""
        return self._background.run(self._async.describe_topics(names))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; the first that cannot be deleted is named in the error."""
        self._background.run(self._async.delete_topics(names))

    def create_partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions; `count` is how many it has afterwards."""
        self._background.run(self._async.create_partitions(name, count))

    def describe_configs(
        self, kind: configs.ResourceKind, name: str, *, docs: bool = False
    ) -> list[configs.ConfigValue]:
        """All settings of a topic, broker or group, by name."""
        return self._background.run(self._async.describe_configs(kind, name, docs=docs))

    def alter_configs(
        self,
        kind: configs.ResourceKind,
        name: str,
        *,
        set_to: Mapping[str, str],
        delete: Iterable[str] = (),
    ) -> None:
        """Change some settings, and take others back to their default."""
        self._background.run(self._async.alter_configs(kind, name, set_to=set_to, delete=delete))

    def describe_cluster(self) -> brokers.ClusterDescription:
        """The brokers, fenced ones too where the broker that is asked can tell."""
        return self._background.run(self._async.describe_cluster())

    def describe_log_dirs(self, node_id: int) -> list[brokers.LogDirDescription]:
        """The folders of a broker, and what each of its partitions takes there."""
        return self._background.run(self._async.describe_log_dirs(node_id))

    def describe_quorum(self) -> quorum.QuorumDescription:
        """Who decides about the cluster's metadata, and how far each has read it."""
        return self._background.run(self._async.describe_quorum())

    def add_voter(self, node_id: int, directory_id: str, endpoints: Sequence[quorum.VoterEndpoint]) -> None:
        """Let a controller vote that follows the metadata log: one with this directory, found there."""
        self._background.run(self._async.add_voter(node_id, directory_id, endpoints))

    def remove_voter(self, node_id: int, directory_id: str) -> None:
        """Let a voter only follow from now on."""
        self._background.run(self._async.remove_voter(node_id, directory_id))

    def find_offsets(
        self, times: Mapping[TopicPartition, int], *, is_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset]:
        """Each partition's first offset at or after its time, or the one at a `Place`.

        With `is_committed` a partition ends at its last stable offset.
        """
        return self._background.run(self._async.find_offsets(times, is_committed=is_committed))

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[groups.GroupSummary]:
        """All groups of these states and types, by name; the cases of letters do not matter."""
        return self._background.run(self._async.list_groups(states=states, types=types))

    def describe_group(self, group_id: str) -> groups.GroupDescription:
        """A classic or consumer group and its members; NoSuchGroupError where there is none."""
        return self._background.run(self._async.describe_group(group_id))

    def group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """All that a group has committed; nothing for a group that is not there."""
        return self._background.run(self._async.group_offsets(group_id))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these partitions end; those that are gone or have no leader now are left out."""
        return self._background.run(self._async.end_offsets(partitions))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Write offsets of a group without members; a group that is not there is made."""
        self._background.run(self._async.alter_group_offsets(group_id, offsets))

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        self._background.run(self._async.delete_group(group_id))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed of partitions that none of its members reads now."""
        self._background.run(self._async.delete_group_offsets(group_id, partitions))

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ClientError]:
        """Begin to move partitions to these replicas, or (None) stop moving them; what failed, and why."""
        return self._background.run(self._async.reassign(targets))

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, reassignments.Reassignment]:
        """Reassignments under way, of these partitions or of all."""
        return self._background.run(self._async.list_reassignments(partitions))

    def move_to_log_dirs(
        self, node_id: int, paths: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ErrorCode]:
        """Have a broker move replicas of its own to these folders of its own; what it refused."""
        return self._background.run(self._async.move_to_log_dirs(node_id, paths))

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Have first replicas lead again, or (unclean) any replica at all; what could not be done, and
        why.
        """
        return self._background.run(self._async.elect_leaders(partitions, unclean=unclean))
