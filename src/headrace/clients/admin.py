"""The admin clients: `Admin` for programs with threads, `AsyncAdmin` on an event loop.

    with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        admin.create_topic("orders", partitions=6)

    async with AsyncAdmin(bootstrap_servers="127.0.0.1:9092") as admin:
        await admin.create_topic("orders", partitions=6)

What the calls do is in `internals/admin`, by subject; every call of `Admin` is `AsyncAdmin`'s of the same
name, waited for.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.config import ADMIN, ClientConfig
from headrace.clients.errors import ClientError
from headrace.clients.internals.admin import (
    acls,
    cluster,
    configs,
    delegation_tokens,
    groups,
    quotas,
    reassignments,
    scram_users,
    share_groups,
    topics,
    transactions,
)
from headrace.clients.internals.background import SyncClient, waits_for
from headrace.clients.internals.environment import ClientEnvironment, system_environment
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.internals.offset_lookup import find_offsets
from headrace.clients.offsets import OffsetAndMetadata, OffsetAndTimestamp


class AsyncAdmin:
    """Asks and changes a cluster, on an event loop.

    Settings are Kafka's, as a mapping or as keywords with _ for dots.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        environment: ClientEnvironment | None = None,
        **more: Any,
    ) -> None:
        config = ClientConfig(ADMIN, settings, **more)
        environment = environment or system_environment(asyncio.get_running_loop(), config)
        self.client = NetworkClient(environment, config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | int | float | bool] | None = None,
        validate_only: bool = False,
    ) -> topics.TopicListing:
        """Make a topic and wait until it can be used; -1 leaves a number to the cluster."""
        return await topics.create_topic(
            self.client,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
            validate_only=validate_only,
        )

    async def list_topics(self) -> list[topics.TopicListing]:
        """All topics, by name."""
        return await topics.list_topics(self.client)

    async def describe_topics(self, names: str | Iterable[str]) -> list[topics.TopicDescription]:
        """A topic or several, partition by partition; NoSuchTopicError for one that is not there."""
        return await topics.describe_topics(self.client, names)

    async def delete_topics(self, names: str | Iterable[str]) -> None:
        """Delete a topic or several; the first that cannot be deleted is named in the error."""
        await topics.delete_topics(self.client, names)

    async def create_partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions; `count` is how many it has afterwards."""
        await topics.create_partitions(self.client, name, count)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before these offsets, -1 for all there is; where the partitions start then."""
        return await topics.delete_records(self.client, offsets)

    async def describe_configs(
        self, kind: configs.ResourceKind | str, name: str, *, docs: bool = False
    ) -> list[configs.ConfigEntry]:
        """All settings of a topic, broker or group, by name; "topic" is as good as ResourceKind.TOPIC."""
        return await configs.describe_configs(self.client, kind, name, docs=docs)

    async def alter_configs(
        self,
        kind: configs.ResourceKind | str,
        name: str,
        *,
        set_to: Mapping[str, configs.ConfigValue] = configs.NOTHING,
        delete: str | Iterable[str] = (),
    ) -> None:
        """Change some settings, and take others back to their default."""
        await configs.alter_configs(self.client, kind, name, set_to=set_to, delete=delete)

    async def describe_client_quotas(
        self,
        entity: quotas.Entity = quotas.EVERYBODY,
        *,
        any_of: str | Iterable[str] = (),
        strict: bool = False,
    ) -> list[quotas.ClientQuota]:
        """Quotas of who has these names ("user", "client-id", "ip"; None: the default), and any name of the
        types in `any_of`; all there are without either. A `strict` search finds who has no other names."""
        return await quotas.describe_client_quotas(self.client, entity, any_of=any_of, strict=strict)

    async def alter_client_quotas(
        self,
        entity: quotas.Entity,
        *,
        set_to: Mapping[str, float] = quotas.NO_LIMITS,
        remove: str | Iterable[str] = (),
    ) -> None:
        """Set some limits of a user, client or address, and remove others."""
        await quotas.alter_client_quotas(self.client, entity, set_to=set_to, remove=remove)

    async def create_acls(self, bindings: acls.AclBinding | Iterable[acls.AclBinding]) -> None:
        """Make access rules; one that is there already is no error."""
        await acls.create_acls(self.client, bindings)

    async def describe_acls(self, wanted: acls.AclBindingFilter = acls.EVERY_ACL) -> list[acls.AclBinding]:
        """The access rules that a filter names, by resource; all without one."""
        return await acls.describe_acls(self.client, wanted)

    async def delete_acls(self, wanted: acls.AclBindingFilter) -> list[acls.AclBinding]:
        """Take the access rules away that a filter names; which they were."""
        return await acls.delete_acls(self.client, wanted)

    async def describe_user_scram_credentials(
        self, users: str | Iterable[str] | None = None
    ) -> list[scram_users.UserScramCredential]:
        """By which SCRAM mechanisms these users, or all, may log in; unknown ones are left out."""
        return await scram_users.describe_user_scram_credentials(self.client, users)

    async def alter_user_scram_credentials(
        self, alterations: scram_users.Alteration | Iterable[scram_users.Alteration]
    ) -> None:
        """Make SCRAM users, give them other passwords, and remove them. Passwords are hashed before they
        leave this process."""
        await scram_users.alter_user_scram_credentials(self.client, alterations)

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: str | Iterable[str] = (),
        max_lifetime_ms: int = delegation_tokens.CLUSTERS_CHOICE,
    ) -> delegation_tokens.DelegationToken:
        """A token to log in with in this user's name, or in that of `owner`; principals as User:alice."""
        return await delegation_tokens.create_delegation_token(
            self.client, owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms
        )

    async def describe_delegation_tokens(
        self, owners: str | Iterable[str] | None = None
    ) -> list[delegation_tokens.DelegationToken]:
        """The tokens of these owners, or all, that this user may see."""
        return await delegation_tokens.describe_delegation_tokens(self.client, owners)

    async def renew_delegation_token(
        self, hmac: bytes, renew_period_ms: int = delegation_tokens.CLUSTERS_CHOICE
    ) -> int:
        """Give a token more time; until when it is good now, in milliseconds since the epoch."""
        return await delegation_tokens.renew_delegation_token(self.client, hmac, renew_period_ms)

    async def expire_delegation_token(
        self, hmac: bytes, expiry_period_ms: int = delegation_tokens.CLUSTERS_CHOICE
    ) -> int:
        """End a token now, or after a time; when that is, in milliseconds since the epoch."""
        return await delegation_tokens.expire_delegation_token(self.client, hmac, expiry_period_ms)

    async def describe_cluster(self) -> cluster.ClusterDescription:
        """The brokers, fenced ones too where the broker that is asked can tell."""
        return await cluster.describe_cluster(self.client)

    async def describe_log_dirs(self, node_id: int) -> list[cluster.LogDirDescription]:
        """The folders of a broker, and what each of its partitions takes there."""
        return await cluster.describe_log_dirs(self.client, node_id)

    async def describe_quorum(self) -> cluster.QuorumInfo:
        """Who decides about the cluster's metadata, and how far each has read it."""
        return await cluster.describe_quorum(self.client)

    async def add_voter(
        self, node_id: int, directory_id: str, endpoints: Sequence[cluster.RaftVoterEndpoint]
    ) -> None:
        """Let a controller vote that follows the metadata log: one with this directory, found there."""
        await cluster.add_voter(self.client, node_id, directory_id, list(endpoints))

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        """Let a voter only follow from now on."""
        await cluster.remove_voter(self.client, node_id, directory_id)

    async def describe_features(self) -> dict[str, cluster.FeatureLevels]:
        """The cluster's features, as metadata.version and share.version, by name (KIP-584)."""
        return await cluster.describe_features(self.client)

    async def update_features(self, levels: Mapping[str, int], *, downgrade: bool = False) -> None:
        """Raise features to these levels, all or none; with `downgrade` lower them, where that loses
        nothing."""
        await cluster.update_features(self.client, levels, downgrade=downgrade)

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], *, is_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Each partition's first offset at or after its time, or the one at an `OffsetSpec`.

        With `is_committed` a partition ends at its last stable offset.
        """
        return await find_offsets(self.client, times, is_committed=is_committed)

    async def list_groups(
        self, *, states: str | Iterable[str] = (), types: str | Iterable[str] = ()
    ) -> list[groups.GroupListing]:
        """All groups of these states and types, by name; the cases of letters do not matter."""
        return await groups.list_groups(self.client, states=states, types=types)

    async def describe_group(
        self, group_id: str, *, group_type: str | None = None
    ) -> groups.GroupDescription:
        """A classic, consumer or streams group and its members; NoSuchGroupError where there is none.

        Where its type is known, as from `list_groups`, nothing is asked that would be refused.
        """
        return await groups.describe_group(self.client, group_id, group_type=group_type)

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """All that a group has committed; nothing for a group that is not there."""
        return await groups.group_offsets(self.client, group_id)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these partitions end; those that are gone or have no leader now are left out."""
        return await groups.end_offsets(self.client, partitions)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Write offsets of a group without members; a group that is not there is made."""
        await groups.alter_offsets(self.client, group_id, offsets)

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        await groups.delete_group(self.client, group_id)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed of partitions that none of its members reads now."""
        await groups.delete_offsets(self.client, group_id, partitions)

    async def describe_share_groups(
        self, group_ids: str | Iterable[str]
    ) -> list[share_groups.ShareGroupDescription]:
        """A share group or several, with their members; NoSuchGroupError for one that is not there."""
        return await share_groups.describe_share_groups(self.client, group_ids)

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, share_groups.SharePartitionOffsetInfo]:
        """Where a share group stands, with its lag, in these partitions or in all that it has read."""
        return await share_groups.list_share_group_offsets(self.client, group_id, partitions)

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Have a share group without members go on at these offsets; a group that is not there is made."""
        await share_groups.alter_share_group_offsets(self.client, group_id, offsets)

    async def delete_share_group_offsets(self, group_id: str, topics: str | Iterable[str]) -> None:
        """Forget where a share group without members stands in these topics."""
        await share_groups.delete_share_group_offsets(self.client, group_id, topics)

    async def delete_share_groups(self, group_ids: str | Iterable[str]) -> None:
        """Delete share groups without members, and where they stand; the first that cannot be deleted is
        named in the error."""
        await share_groups.delete_share_groups(self.client, group_ids)

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ClientError]:
        """Begin to move partitions to these replicas, or (None) stop moving them; what failed, and why."""
        return await reassignments.reassign(self.client, targets)

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, reassignments.PartitionReassignment]:
        """Reassignments under way, of these partitions or of all."""
        return await reassignments.list_reassignments(self.client, partitions)

    async def move_to_log_dirs(
        self, node_id: int, paths: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ErrorCode]:
        """Have a broker move replicas of its own to these folders of its own; what it refused."""
        return await reassignments.move_to_log_dirs(self.client, node_id, paths)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Have first replicas lead again, or (unclean) any replica at all; what could not be done, and
        why.
        """
        return await reassignments.elect_leaders(self.client, partitions, unclean=unclean)

    async def list_transactions(
        self,
        *,
        states: str | Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[transactions.TransactionListing]:
        """All transactions, or those that fit; `pattern` is a regular expression for whole ids."""
        return await transactions.list_transactions(
            self.client,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )

    async def describe_transactions(
        self, *transactional_ids: str
    ) -> dict[str, transactions.TransactionDescription]:
        """State, producer and partitions of each id; ids that nobody knows are left out."""
        return await transactions.describe_transactions(self.client, transactional_ids)

    async def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        """Commit or abort in the place of the producer that wrote it. Again is harmless."""
        await transactions.end_transaction(
            self.client, transactional_id, producer_id, producer_epoch, committed=committed
        )

    async def fence_producer(self, transactional_id: str) -> None:
        """Shut out whoever writes under an id, and abort what it has open."""
        await transactions.fence_producer(self.client, transactional_id)

    async def describe_producers(self, *partitions: TopicPartition) -> list[transactions.ActiveProducer]:
        """The producers that partitions' leaders know of, with the transactions they have open."""
        return await transactions.describe_producers(self.client, partitions)

    async def abort_hanging(self, producer: transactions.ActiveProducer) -> None:
        """Write an abort marker behind an open transaction that no coordinator will end."""
        await transactions.abort_hanging(self.client, producer)


class Admin(SyncClient[AsyncAdmin]):
    """Asks and changes a cluster, for programs with threads. Settings as for `AsyncAdmin`."""

    def __init__(self, settings: Mapping[str, Any] | None = None, **more: Any) -> None:
        config = ClientConfig(ADMIN, settings, **more)
        super().__init__(
            "headrace-admin", config, lambda environment: AsyncAdmin(config.given, environment=environment)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.closing(self._background):
                self._background.loop.call_soon_threadsafe(self._async.close)

    create_topic = waits_for(AsyncAdmin.create_topic)
    list_topics = waits_for(AsyncAdmin.list_topics)
    describe_topics = waits_for(AsyncAdmin.describe_topics)
    delete_topics = waits_for(AsyncAdmin.delete_topics)
    create_partitions = waits_for(AsyncAdmin.create_partitions)
    delete_records = waits_for(AsyncAdmin.delete_records)
    describe_configs = waits_for(AsyncAdmin.describe_configs)
    alter_configs = waits_for(AsyncAdmin.alter_configs)
    describe_client_quotas = waits_for(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = waits_for(AsyncAdmin.alter_client_quotas)
    create_acls = waits_for(AsyncAdmin.create_acls)
    describe_acls = waits_for(AsyncAdmin.describe_acls)
    delete_acls = waits_for(AsyncAdmin.delete_acls)
    describe_user_scram_credentials = waits_for(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = waits_for(AsyncAdmin.alter_user_scram_credentials)
    create_delegation_token = waits_for(AsyncAdmin.create_delegation_token)
    describe_delegation_tokens = waits_for(AsyncAdmin.describe_delegation_tokens)
    renew_delegation_token = waits_for(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = waits_for(AsyncAdmin.expire_delegation_token)
    describe_cluster = waits_for(AsyncAdmin.describe_cluster)
    describe_log_dirs = waits_for(AsyncAdmin.describe_log_dirs)
    describe_quorum = waits_for(AsyncAdmin.describe_quorum)
    add_voter = waits_for(AsyncAdmin.add_voter)
    remove_voter = waits_for(AsyncAdmin.remove_voter)
    describe_features = waits_for(AsyncAdmin.describe_features)
    update_features = waits_for(AsyncAdmin.update_features)
    list_offsets = waits_for(AsyncAdmin.list_offsets)
    list_groups = waits_for(AsyncAdmin.list_groups)
    describe_group = waits_for(AsyncAdmin.describe_group)
    group_offsets = waits_for(AsyncAdmin.group_offsets)
    end_offsets = waits_for(AsyncAdmin.end_offsets)
    alter_group_offsets = waits_for(AsyncAdmin.alter_group_offsets)
    delete_group = waits_for(AsyncAdmin.delete_group)
    delete_group_offsets = waits_for(AsyncAdmin.delete_group_offsets)
    describe_share_groups = waits_for(AsyncAdmin.describe_share_groups)
    list_share_group_offsets = waits_for(AsyncAdmin.list_share_group_offsets)
    alter_share_group_offsets = waits_for(AsyncAdmin.alter_share_group_offsets)
    delete_share_group_offsets = waits_for(AsyncAdmin.delete_share_group_offsets)
    delete_share_groups = waits_for(AsyncAdmin.delete_share_groups)
    reassign = waits_for(AsyncAdmin.reassign)
    list_reassignments = waits_for(AsyncAdmin.list_reassignments)
    move_to_log_dirs = waits_for(AsyncAdmin.move_to_log_dirs)
    elect_leaders = waits_for(AsyncAdmin.elect_leaders)
    list_transactions = waits_for(AsyncAdmin.list_transactions)
    describe_transactions = waits_for(AsyncAdmin.describe_transactions)
    end_transaction = waits_for(AsyncAdmin.end_transaction)
    fence_producer = waits_for(AsyncAdmin.fence_producer)
    describe_producers = waits_for(AsyncAdmin.describe_producers)
    abort_hanging = waits_for(AsyncAdmin.abort_hanging)
