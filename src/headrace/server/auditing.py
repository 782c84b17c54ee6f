"""What goes from requests into the audit trail (`telemetry/audit.py`).

Changes: a row for each request kind that changes the cluster says which resources it changes, in names. They
are told when the reply is known, one by one, with the error where one failed. Who was refused is told by the
authorizer at the moment of refusal, whatever it asked for. Logins that fail are told as refusals of the
listener. Reading is told where a consumer names a topic that the rules name: within a fetch session that is
once.

Requests that a broker forwards are told there, where the client is known by its connection. Produced records
are no change of the cluster: who may write is in the refusals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import then
from headrace.base.ids import TopicId
from headrace.metadata.config_resource import ResourceType
from headrace.server.authorizer import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.server.forwarding import Handler
    from headrace.telemetry.audit import AuditTrail

REFUSALS: Final = frozenset(code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED"))
"""The authorizer tells of these itself."""


class Change(NamedTuple):
    """A resource that is to be changed, by Kafka's words for it; details are names as well."""

    operation: str
    resource: str
    name: str
    details: tuple[str, ...] = ()


Changes: TypeAlias = Callable[[RequestContext, Any], Iterable[Change]]


def _each(operation: str, resource: str, items: str, name: str = "name") -> Changes:
    """Every item of a list of the request."""
    return lambda context, request: (
        Change(operation, resource, getattr(each, name)) for each in getattr(request, items) or ()
    )


def _cluster(operation: str, details: Callable[[Any], Iterable[str]]) -> Changes:
    return lambda context, request: (Change(operation, "CLUSTER", "kafka-cluster", tuple(details(request))),)


def _deleted_topics(context: RequestContext, request: Any) -> Iterator[Change]:
    for name in request.topic_names:
        yield Change("DELETE", "TOPIC", name)
    for topic in request.topics:
        found = context.parts.image.topics_by_id.get(TopicId(topic.topic_id))
        yield Change("DELETE", "TOPIC", topic.name or (topic.topic_id.hex() if found is None else found.name))


def _settings(context: RequestContext, request: Any) -> Iterator[Change]:
    known = {int(each) for each in ResourceType}
    for each in request.resources:
        kind = ResourceType(each.resource_type).name if each.resource_type in known else "UNKNOWN"
        names = tuple(config.name for config in each.configs)
        yield Change("ALTER_CONFIGS", kind, each.resource_name, names)


def _quotas(context: RequestContext, request: Any) -> Iterator[Change]:
    for entry in request.entries:
        names = (f"{each.entity_type}={each.entity_name or '<default>'}" for each in entry.entity)
        yield Change("ALTER_CONFIGS", "CLIENT_QUOTA", ",".join(names), tuple(op.key for op in entry.ops))


def _scram_users(context: RequestContext, request: Any) -> Iterator[Change]:
    for each in request.deletions:
        yield Change("ALTER", "USER", each.name, ("SCRAM credential deleted",))
    for each in request.upsertions:
        yield Change("ALTER", "USER", each.name, ("SCRAM credential set",))


def _acl_text(acl: Any, *, suffix: str = "") -> str:
    """A rule, or a filter for some, by Kafka's numbers; what a filter leaves open is *."""

    def part(name: str) -> str:
        value = getattr(acl, f"{name}{suffix}", None)
        return "*" if value is None else str(value)

    return (
        f"principal={part('principal')} host={part('host')} operation={acl.operation} "
        f"permission={acl.permission_type} resource={part('resource_type')}:{part('resource_name')}"
    )


def _token_owner(context: RequestContext, request: Any) -> Iterator[Change]:
    owner = context.peer.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    yield Change("CREATE", "DELEGATION_TOKEN", owner)


def _token(operation: str) -> Changes:
    # A token is named by its secret alone in these requests: whose it is, is not said.
    return lambda context, request: (Change(operation, "DELEGATION_TOKEN", ""),)


def _share_offsets(operation: str) -> Changes:
    return lambda context, request: (
        Change(operation, "GROUP", request.group_id, tuple(topic.topic_name for topic in request.topics)),
    )


def _moved_replicas(request: Any) -> Iterator[str]:
    return (topic.name for each in request.dirs for topic in each.topics)


CHANGES: Final[dict[ApiKey, Changes]] = {
    ApiKey.CREATE_TOPICS: _each("CREATE", "TOPIC", "topics"),
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.CREATE_PARTITIONS: _each("ALTER", "TOPIC", "topics"),
    ApiKey.DELETE_RECORDS: _each("DELETE", "TOPIC", "topics"),
    ApiKey.ALTER_CONFIGS: _settings,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _settings,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _scram_users,
    ApiKey.CREATE_ACLS: _cluster("ALTER", lambda request: map(_acl_text, request.creations)),
    ApiKey.DELETE_ACLS: _cluster(
        "ALTER", lambda request: (_acl_text(each, suffix="_filter") for each in request.filters)
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: _token_owner,
    ApiKey.RENEW_DELEGATION_TOKEN: _token("ALTER"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _token("DELETE"),
    ApiKey.DELETE_GROUPS: lambda context, request: (
        Change("DELETE", "GROUP", name) for name in request.groups_names
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _share_offsets("ALTER"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _share_offsets("DELETE"),
    ApiKey.OFFSET_DELETE: lambda context, request: (
        Change("DELETE", "GROUP", request.group_id, tuple(topic.name for topic in request.topics)),
    ),
    ApiKey.ELECT_LEADERS: _cluster(
        "ALTER", lambda request: (each.topic for each in request.topic_partitions or ())
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _each("ALTER", "TOPIC", "topics"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster("ALTER", _moved_replicas),
    ApiKey.UPDATE_FEATURES: _cluster(
        "ALTER",
        lambda request: (f"{each.feature}={each.max_version_level}" for each in request.feature_updates),
    ),
    ApiKey.UNREGISTER_BROKER: _cluster("ALTER", lambda request: (f"broker {request.broker_id}",)),
    ApiKey.ADD_RAFT_VOTER: _cluster("ALTER", lambda request: (f"voter {request.voter_id}",)),
    ApiKey.REMOVE_RAFT_VOTER: _cluster("ALTER", lambda request: (f"voter {request.voter_id}",)),
}
"""What each request kind that changes the cluster changes."""

_NAMES: Final = ("name", "resource_name", "group_id", "user", "topic", "topic_name", "feature")


def audited(trail: AuditTrail, api_key: ApiKey, handle: Handler) -> Handler:
    """A handler with what must be told of it; the handler itself where that is nothing."""
    if api_key is ApiKey.SASL_AUTHENTICATE and trail.rules.refusals:
        return _telling_logins(trail, handle)
    if api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH) and trail.rules.reads:
        return _telling_reads(trail, handle)
    if api_key in CHANGES and trail.rules.changes:
        return _telling_changes(trail, CHANGES[api_key], handle)
    return handle


def _telling_changes(trail: AuditTrail, changes: Changes, handle: Handler) -> Handler:
    def telling_changes(context: RequestContext, request: Any) -> Any:
        if context.peer.is_forwarded or getattr(request, "validate_only", False):
            return handle(context, request)
        asked = list(changes(context, request))

        def tell(response: Any) -> Any:
            for change in asked:
                _tell(trail, context, change, _error_of(response, change.name))
            return response

        def tell_failure(error: BaseException) -> None:
            code = error.code if isinstance(error, ApiError) else ErrorCode.UNKNOWN_SERVER_ERROR
            for change in asked:
                _tell(trail, context, change, code)

        try:
            result = handle(context, request)
        except Exception as error:
            tell_failure(error)
            raise
        return _afterwards(context, result, tell, tell_failure)

    return telling_changes


def _tell(trail: AuditTrail, context: RequestContext, change: Change, code: int) -> None:
    if code in REFUSALS:
        return
    error = "" if not code else ErrorCode(code).name
    trail.on_decision(
        *(context, change.operation, change.resource, change.name, True), error=error, details=change.details
    )


def _telling_reads(trail: AuditTrail, handle: Handler) -> Handler:
    def telling_reads(context: RequestContext, request: Any) -> Any:
        result = handle(context, request)
        if not _is_follower(context, request):
            for topic in request.topics:
                found = context.parts.image.topics_by_id.get(TopicId(topic.topic_id))
                name = getattr(topic, "topic", "") or ("" if found is None else found.name)
                if trail.rules.has_read(name) and allows(context, Operation.READ, Resource.TOPIC, name):
                    trail.on_read(context, name)
        return result

    return telling_reads


def _is_follower(context: RequestContext, request: Any) -> bool:
    if context.api_key != ApiKey.FETCH:
        return False
    state = request.replica_state
    return bool((request.replica_id if state is None else state.replica_id) >= 0)


def _telling_logins(trail: AuditTrail, handle: Handler) -> Handler:
    def telling_logins(context: RequestContext, request: Any) -> Any:
        def tell(response: Any) -> Any:
            if getattr(response, "error_code", 0) == ErrorCode.SASL_AUTHENTICATION_FAILED:
                trail.on_decision(context, "AUTHENTICATE", "LISTENER", context.peer.listener, False)
            return response

        return _afterwards(context, handle(context, request), tell, lambda error: None)

    return telling_logins


def _afterwards(
    context: RequestContext,
    result: Any,
    tell: Callable[[Any], Any],
    tell_failure: Callable[[BaseException], None],
) -> Any:
    """A handler's result, with its reply told whenever that comes."""
    if asyncio.isfuture(result):

        def failed(error: BaseException) -> Any:
            tell_failure(error)
            raise error

        return then(result, tell, loop=context.parts.loop, on_error=failed)
    if type(result) is GeneratorType:
        return _afterwards_slowly(context, result, tell, tell_failure)
    return tell(result)


def _afterwards_slowly(
    context: RequestContext,
    work: Any,
    tell: Callable[[Any], Any],
    tell_failure: Callable[[BaseException], None],
) -> Any:
    try:
        result = yield from work
    except Exception as error:
        tell_failure(error)
        raise
    return _afterwards(context, result, tell, tell_failure)


def _error_of(response: Any, name: str) -> int:
    """What became of the resource with this name: the reply's own error, or the first of its results."""
    top = int(getattr(response, "error_code", 0))
    if top:
        return top
    results = [each for field in fields(response) for each in _items(getattr(response, field.name))]
    named = [each for each in results if any(getattr(each, key, None) == name for key in _NAMES)]
    return next(filter(None, map(_first_error, named or results)), 0)


def _first_error(result: Any) -> int:
    """Of a result, or of the parts that it has."""
    code = int(getattr(result, "error_code", 0))
    if code:
        return code
    parts = (part for field in fields(result) for part in _items(getattr(result, field.name)))
    return next((int(part.error_code) for part in parts if getattr(part, "error_code", 0)), 0)


def _items(value: Any) -> list[Any]:
    return (
        [each for each in value if hasattr(each, "__dataclass_fields__")] if isinstance(value, list) else []
    )
