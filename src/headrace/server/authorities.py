"""What request kinds need that one line of the API table cannot say: names that depend on versions and on
each other, and replies that show no more than the client may know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_TOPIC_ID
from headrace.metadata.config_resource import ResourceType
from headrace.server.authority import (
    REFUSALS,
    Authority,
    Each,
    InHandler,
    OneRight,
    Right,
    Shown,
    Whole,
    cluster,
    field,
    itself,
    on_cluster,
    on_group,
    on_topic,
    on_transactional_id,
    topic,
)
from headrace.server.authorizer import CLUSTER_NAME, Operation, Resource, allows, tell_denied
from headrace.server.context import RequestContext
from headrace.server.txn_produce import is_transactional
from headrace.wire.schemas.add_partitions_to_txn import BROKER_SINCE
from headrace.wire.schemas.find_coordinator import BATCHED_SINCE
from headrace.wire.schemas.offset_fetch import GROUPS_SINCE
from headrace.wire.schemas.sync_group import PROTOCOL_SINCE

METADATA_TOPIC: Final = "__cluster_metadata"
"""Nobody can make it, whatever they may: the controller says so."""


def need(*rights: Right) -> Authority:
    """All of a request, for who has one of these rights."""
    return (Whole(rights),)


def need_cluster(*operations: Operation) -> Authority:
    return need(*map(on_cluster, operations))


def each_topic(operation: Operation) -> Authority:
    return (Each("topics", (on_topic(operation),)),)


class AnyResource(NamedTuple):
    """To do something to any resource of a type at all (KIP-679)."""

    operation: Operation
    resource: Resource

    def is_held(self, context: RequestContext, asked: Any) -> bool:
        peer = context.peer
        return context.parts.authorizer.allows_by_resource_type(
            peer.principal, peer.host, self.operation, self.resource
        )

    def tell_denied(self, context: RequestContext, asked: Any) -> None:
        tell_denied(context, self.operation, self.resource, "")

    @property
    def refusal(self) -> ErrorCode:
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class EveryTopic(NamedTuple):
    """To do something to each of the topics that a field names."""

    operation: Operation
    names: str

    def _refused(self, context: RequestContext, asked: Any) -> list[str]:
        names = getattr(asked, self.names) or ()
        return [name for name in names if not allows(context, self.operation, Resource.TOPIC, name)]

    def is_held(self, context: RequestContext, asked: Any) -> bool:
        return not self._refused(context, asked)

    def tell_denied(self, context: RequestContext, asked: Any) -> None:
        tell_denied(context, self.operation, Resource.TOPIC, self._refused(context, asked)[0])

    @property
    def refusal(self) -> ErrorCode:
        return REFUSALS[Resource.TOPIC]


# -- records -------------------------------------------------------------------------------------------------


def _transactional_id(context: RequestContext, request: Any) -> str | None:
    """Asked for before anything is written (CVE-2018-17196), where a batch is part of a transaction."""
    if request.transactional_id is None:
        return None
    batches = (data for topic in request.topic_data for data in topic.partition_data)
    return request.transactional_id if any(map(is_transactional, batches)) else None


PRODUCE: Final[Authority] = (
    Whole((on_transactional_id(Operation.WRITE, _transactional_id),)),
    Each("topic_data", (on_topic(Operation.WRITE),), is_sliced=False),
)

FETCH: Final[Authority] = (InHandler((on_cluster(Operation.CLUSTER_ACTION), on_topic(Operation.READ))),)
"""Which partitions are read is known to their session; a follower needs CLUSTER_ACTION (CVE-2018-1288)."""


OFFSET_FOR_LEADER_EPOCH: Final[Authority] = (
    Each("topics", (on_cluster(Operation.CLUSTER_ACTION), on_topic(Operation.DESCRIBE, field("topic")))),
)
"""Followers ask, and consumers."""


# -- topics --------------------------------------------------------------------------------------------------


def _creatable(context: RequestContext, asked: Any) -> str | None:
    return None if asked.name == METADATA_TOPIC else asked.name


def _veil_configs(context: RequestContext, request: Any, reply: Any) -> None:
    """Settings of a new topic are told to those who may see settings."""
    for result in reply.topics:
        if not result.error_code and not allows(
            context, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, result.name
        ):
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.num_partitions, result.replication_factor, result.configs = -1, -1, []


CREATE_TOPICS: Final[Authority] = (
    Shown(_veil_configs),
    Each(
        "topics",
        (on_cluster(Operation.CREATE), on_topic(Operation.CREATE, _creatable)),
        words="Authorization failed.",
    ),
)


def _deletable(context: RequestContext, asked: Any) -> Sequence[Right]:
    """Who may look at a topic hears that it does not exist; for others it might."""
    named = asked if isinstance(asked, str) else topic(context, asked)
    if named is None or (not isinstance(asked, str) and asked.name and asked.topic_id != NO_TOPIC_ID):
        return ()  # the controller says what is wrong
    is_there = named in context.parts.image.topics_by_name
    operation = Operation.DELETE if is_there else Operation.DESCRIBE
    return on_cluster(Operation.DELETE), on_topic(operation, lambda _context, _asked: named)


def _tell_name(context: RequestContext, asked: Any, result: Any) -> None:
    """A topic that was asked for by its id is named to those who may look at it."""
    if asked.topic_id != NO_TOPIC_ID:
        named = topic(context, asked)
        if named is not None and allows(context, Operation.DESCRIBE, Resource.TOPIC, named):
            result.name = named


DELETE_TOPICS: Final[Authority] = (
    Each("topic_names", _deletable, versions=(0, 5)),
    Each("topics", _deletable, versions=(6, 99), tell=_tell_name),
)

METADATA: Final[Authority] = (
    InHandler(
        (on_topic(Operation.DESCRIBE), on_cluster(Operation.CREATE), on_topic(Operation.CREATE)),
    ),
)
"""Whether a topic is there is told to those who may look at it, and only they have it made."""


# -- groups --------------------------------------------------------------------------------------------------

OFFSET_FETCH: Final[Authority] = (
    Whole((on_group(Operation.DESCRIBE),), versions=(0, GROUPS_SINCE - 1)),
    Each("groups", (on_group(Operation.DESCRIBE),), versions=(GROUPS_SINCE, 99)),
    InHandler((on_topic(Operation.DESCRIBE),)),
)


def _coordinated(name: str) -> Sequence[Right]:
    def group(context: RequestContext, request: Any) -> str | None:
        return getattr(request, name) if request.key_type == 0 else None

    def transactional_id(context: RequestContext, request: Any) -> str | None:
        return getattr(request, name) if request.key_type == 1 else None

    return on_group(Operation.DESCRIBE, group), on_transactional_id(Operation.DESCRIBE, transactional_id)


_GROUP_KEY, _TRANSACTIONAL_KEY = _coordinated("key")

FIND_COORDINATOR: Final[Authority] = (
    Whole((_GROUP_KEY,), versions=(0, BATCHED_SINCE - 1)),
    Whole((_TRANSACTIONAL_KEY,), versions=(0, BATCHED_SINCE - 1)),
    InHandler((on_group(Operation.DESCRIBE), on_transactional_id(Operation.DESCRIBE))),
)
"""From v4 on the kind of key is not in the item itself: the handler asks."""


def _visible_groups(context: RequestContext, request: Any, reply: Any) -> None:
    if not allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        reply.groups = [
            group
            for group in reply.groups
            if allows(context, Operation.DESCRIBE, Resource.GROUP, group.group_id)
        ]


LIST_GROUPS: Final[Authority] = (Shown(_visible_groups),)

CONSUMER_GROUP_HEARTBEAT: Final[Authority] = (
    Whole((on_group(Operation.READ),)),
    Whole((EveryTopic(Operation.DESCRIBE, "subscribed_topic_names"),)),
)

READ_GROUP: Final[Authority] = need(on_group(Operation.READ))


def _synchronised(context: RequestContext, request: Any) -> str | None:
    """A request that says nothing of its protocol is wrong, whoever sends it."""
    is_whole = context.api_version < PROTOCOL_SINCE or None not in (
        request.protocol_type,
        request.protocol_name,
    )
    return request.group_id if is_whole else None


SYNC_GROUP: Final[Authority] = need(on_group(Operation.READ, _synchronised))


def each_group(operation: Operation, items: str) -> Authority:
    return (Each(items, (on_group(operation, itself),)),)


def _describable_members(context: RequestContext, request: Any, reply: Any) -> None:
    """A group that reads topics which the client may not know of is not shown to it."""
    for at, group in enumerate(reply.groups):
        topics = {
            each.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for each in assignment.topic_partitions
        }
        if not all(allows(context, Operation.DESCRIBE, Resource.TOPIC, name) for name in topics):
            reply.groups[at] = type(group)(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "The group has described topic(s) that the client is not authorized to describe.",
                group.group_id,
            )


CONSUMER_GROUP_DESCRIBE: Final[Authority] = (
    Shown(_describable_members),
    *each_group(Operation.DESCRIBE, "group_ids"),
)


def _describable_assignments(context: RequestContext, request: Any, reply: Any) -> None:
    """As for consumer groups."""
    for at, group in enumerate(reply.groups):
        topics = {each.topic_name for member in group.members for each in member.assignment.topic_partitions}
        if not all(allows(context, Operation.DESCRIBE, Resource.TOPIC, name) for name in topics):
            reply.groups[at] = type(group)(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "The group has described topic(s) that the client is not authorized to describe.",
                group.group_id,
            )


SHARE_GROUP_DESCRIBE: Final[Authority] = (
    Shown(_describable_assignments),
    *each_group(Operation.DESCRIBE, "group_ids"),
)

STREAMS_GROUP_HEARTBEAT: Final[Authority] = (
    Whole((on_group(Operation.READ),)),
    InHandler((on_topic(Operation.DESCRIBE), on_cluster(Operation.CREATE), on_topic(Operation.CREATE))),
)
"""Of the topics that its topology names each member must know, and only who may make topics has those that
are missing made."""


def _describable_topologies(context: RequestContext, request: Any, reply: Any) -> None:
    """As for consumer groups, with whatever the topology reads, writes and keeps."""
    for at, group in enumerate(reply.groups):
        topology = group.topology
        topics = {
            name
            for each in (topology.subtopologies if topology is not None else None) or ()
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(kept.name for kept in (*each.repartition_source_topics, *each.state_changelog_topics)),
            )
        }
        if not all(allows(context, Operation.DESCRIBE, Resource.TOPIC, name) for name in topics):
            reply.groups[at] = type(group)(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "The described group uses topics that the client is not authorized to describe.",
                group.group_id,
            )


STREAMS_GROUP_DESCRIBE: Final[Authority] = (
    Shown(_describable_topologies),
    *each_group(Operation.DESCRIBE, "group_ids"),
)

DESCRIBE_SHARE_GROUP_OFFSETS: Final[Authority] = (
    Each("groups", (on_group(Operation.DESCRIBE),)),
    InHandler((on_topic(Operation.DESCRIBE, field("topic_name")),)),
)
ALTER_SHARE_GROUP_OFFSETS: Final[Authority] = (
    Whole((on_group(Operation.READ),)),
    InHandler((on_topic(Operation.READ, field("topic_name")),)),
)
DELETE_SHARE_GROUP_OFFSETS: Final[Authority] = (
    Whole((on_group(Operation.DELETE),)),
    InHandler((on_topic(Operation.READ, field("topic_name")),)),
)
"""Of each topic by itself: the handler answers for those that may not be read."""

SHARE_RECORDS: Final[Authority] = (Whole((on_group(Operation.READ),)), InHandler((on_topic(Operation.READ),)))
"""A member that may read the group gets what it may read of its topics."""


# -- transactions --------------------------------------------------------------------------------------------


def _without_transaction(context: RequestContext, request: Any) -> str | None:
    return CLUSTER_NAME if request.transactional_id is None else None


INIT_PRODUCER_ID: Final[Authority] = (
    Whole((on_transactional_id(Operation.WRITE),)),
    Whole(
        (
            OneRight(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, _without_transaction),
            AnyResource(Operation.WRITE, Resource.TOPIC),
        )
    ),
    InHandler((on_transactional_id(Operation.TWO_PHASE_COMMIT),)),
)

ADD_PARTITIONS_TO_TXN: Final[Authority] = (
    Whole(
        (on_transactional_id(Operation.WRITE, field("v3_and_below_transactional_id")),),
        versions=(0, BROKER_SINCE - 1),
    ),
    Whole((on_cluster(Operation.CLUSTER_ACTION),), versions=(BROKER_SINCE, 99)),
    InHandler((on_topic(Operation.WRITE),)),
)
"""Of a client's topics none is added where one is refused: the handler answers for all of them."""

TXN_OFFSETS: Final[Authority] = (
    Whole((on_transactional_id(Operation.WRITE),)),
    Whole((on_group(Operation.READ),)),
)


DESCRIBE_TRANSACTIONS: Final[Authority] = (
    Each("transactional_ids", (on_transactional_id(Operation.DESCRIBE, itself),)),
    InHandler((on_topic(Operation.DESCRIBE),)),
)


# -- the cluster ---------------------------------------------------------------------------------------------

DESCRIBE_CLUSTER: Final[Authority] = (InHandler((on_cluster(Operation.DESCRIBE),)),)
"""Everyone hears of the brokers; what may be done to the cluster, who may look at it."""


# -- configurations ------------------------------------------------------------------------------------------


def each_config_resource(operation: Operation) -> Authority:
    """A topic's and a group's settings are their own; all others are the cluster's."""

    def rights(context: RequestContext, asked: Any) -> Sequence[Right]:
        if asked.resource_type == ResourceType.TOPIC:
            return (on_topic(operation, field("resource_name")),)
        if asked.resource_type == ResourceType.GROUP:
            return (on_group(operation, field("resource_name")),)
        if asked.resource_type != ResourceType.UNKNOWN and asked.resource_type in list(ResourceType):
            return (OneRight(operation, Resource.CLUSTER, cluster),)
        return ()  # there is no such type: the handler says so

    return (Each("resources", rights),)


# -- delegation tokens ---------------------------------------------------------------------------------------


def _token_owner(context: RequestContext, request: Any) -> str | None:
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


CREATE_TOKEN: Final[Authority] = (
    InHandler((OneRight(Operation.CREATE_TOKENS, Resource.USER, _token_owner),)),
)
"""Of another one than oneself."""

CHANGE_TOKEN: Final[Authority] = (InHandler(()),)
"""The controller compares who asks with the token's owner and renewers: no rule gives that right."""

DESCRIBE_TOKEN: Final[Authority] = (
    InHandler(
        (
            OneRight(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, lambda context, request: None),
            OneRight(Operation.DESCRIBE_TOKENS, Resource.USER, lambda context, request: None),
        )
    ),
)
"""Of tokens that others own; of each that is found."""
