"""The reply to a request that failed as a whole: the error in every place where Kafka's own broker puts it.

Most replies have an error code at the top, and that is where it goes. Where they have none, everything that
the request names is answered with the error, so that a client finds it where it looks for results: the
request's first list is mirrored into each list of the reply that can hold errors, names and ids are copied,
and the code goes into every `error_code` on the way. The schemas tell all of this. What they do not tell
stands in the tables: replies with errors at the top and below, values that an error has in fields without a
fitting default, and the few replies that are made in a way of their own.

Error messages are ours, so they say what went wrong even where Kafka only repeats the name of the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.base.errors import ApiError
from headrace.wire.plan import FieldPlan, StructPlan, plan_message

_ERROR_CODES: Final = frozenset({"error_code", "partition_error_code"})
_ERRORS: Final = _ERROR_CODES | {"error_message"}

# Numbers that name something; other numbers of a request say what it wants, and a failure does not repeat
# them.
_NUMERIC_NAMES: Final = frozenset({"partition_index", "partition", "index", "producer_id", "resource_type"})

# Where a reply and its request have different words for the same: reply's field -> request's field.
_OTHER_NAMES: Final = {
    "partition_index": "partition",
    "topic_name": "name",
    "user": "name",
}

# Replies that tell the error at the top and for everything below it.
_TOP_AND_BELOW: Final = frozenset(
    {
        "MetadataResponse",
        "ElectLeadersResponse",
        "AlterPartitionReassignmentsResponse",
        "DescribeUserScramCredentialsResponse",
    }
)

# What stands in other fields of a failed result, where it is not the field's default.
_VALUES: Final[dict[str, dict[str, Any]]] = {
    "PartitionProduceResponse": {"base_offset": -1},
    "PartitionData": {"high_watermark": -1, "records": b""},
    "FindCoordinatorResponse": {"node_id": -1, "port": -1},
    "Coordinator": {"node_id": -1, "port": -1},
    "JoinGroupResponse": {"protocol_name": None},
    "OffsetFetchResponsePartition": {"committed_offset": -1},
    "DeleteRecordsPartitionResult": {"low_watermark": -1},
    "InitProducerIdResponse": {"producer_epoch": -1},
    "DescribeClientQuotasResponse": {"entries": None},
    "CreateDelegationTokenResponse": {
        "principal_type": "User",
        "principal_name": "ANONYMOUS",
        "token_requester_principal_type": "User",
        "token_requester_principal_name": "ANONYMOUS",
        "issue_timestamp_ms": -1,
        "expiry_timestamp_ms": -1,
        "max_timestamp_ms": -1,
    },
}


_PLANS: Final[dict[tuple[type[Any], int], StructPlan]] = {}


def error_reply(request: Any, response: type[Any], version: int, error: ApiError) -> Any:
    """The `response` that tells of `error`; None where there can be none and the connection must end."""
    own_way = _OWN_WAYS.get(response.__name__)
    plan = _plan(response, version)
    asked = _plan(type(request), version)
    if own_way is not None:
        return own_way(request, plan, asked, error)
    return _mirrored(request, plan, asked, error, below=response.__name__ in _TOP_AND_BELOW)


def refused_items(
    request: Any, name: str, items: list[Any], response: type[Any], version: int, error: ApiError
) -> dict[str, list[Any]]:
    """The results of some items of a list of the request, as if each had failed with `error`: by the lists of
    the reply that they belong into, in the order of the items."""
    source = next(field for field in _plan(type(request), version).fields if field.spec.name == name)
    return {
        field.spec.name: [_result(field.struct, source, item, error) for item in items]
        for field in _plan(response, version).fields
        if field.struct is not None and field.spec.is_array and _can_tell(field.struct)
    }


def forget_records(request: Any) -> None:
    """Drop the views that a Produce has of its frame, which is about to be used for another."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            partition.records = None


def _plan(cls: Any, version: int) -> StructPlan:
    plan = _PLANS.get((cls, version))
    if plan is None:
        plan = _PLANS[cls, version] = plan_message(cls, version)
    return plan


def _mirrored(request: Any, plan: StructPlan, asked: StructPlan, error: ApiError, *, below: bool) -> Any:
    """The reply's top, and what is below it where the top cannot tell the error or `below` says so."""
    reply = plan.cls()
    if _tell(reply, plan, error) and not below:
        return reply
    source = _first_list(asked)
    wanted = None if source is None else getattr(request, source.spec.name)
    for field in plan.fields:
        if field.struct is not None and field.spec.is_array and _can_tell(field.struct):
            results = [_result(field.struct, source, one, error) for one in wanted or ()]
            setattr(reply, field.spec.name, results)
    return reply


def _result(plan: StructPlan, source: FieldPlan | None, one: Any, error: ApiError) -> Any:
    """The failed result for one thing that was asked for: a struct, or just a name or number."""
    assert source is not None
    asked = source.struct
    if asked is None:
        result = plan.cls()
        _tell(result, plan, error)
        name = next(field.spec.name for field in plan.fields if field.spec.name not in _ERRORS)
        setattr(result, name, one)
        return result
    result = _mirrored(one, plan, asked, error, below=False)
    known = {field.spec.name for field in asked.fields}
    for field in plan.fields:
        name = field.spec.name
        is_name = field.spec.wire.name in ("string", "uuid") or name in _NUMERIC_NAMES
        if is_name and not field.spec.is_array and name not in _ERRORS:
            asked_name = name if name in known else _OTHER_NAMES.get(name)
            if asked_name in known:
                setattr(result, name, getattr(one, asked_name))
    return result


def _tell(reply: Any, plan: StructPlan, error: ApiError) -> bool:
    """Set the error in one struct, with the values that go with it. False: it has no place for a code."""
    values = _VALUES.get(plan.cls.__name__, {})
    told = False
    for field in plan.fields:
        name = field.spec.name
        if name in _ERROR_CODES:
            setattr(reply, name, int(error.code))
            told = True
        elif name == "error_message":
            setattr(reply, name, error.message)
        elif name in values and (values[name] is not None or field.is_nullable):
            setattr(reply, name, values[name])
    return told


def _can_tell(plan: StructPlan) -> bool:
    """Whether a struct, or a list within it, has an error code."""
    return any(
        field.spec.name in _ERROR_CODES
        or (field.struct is not None and field.spec.is_array and _can_tell(field.struct))
        for field in plan.fields
    )


def _first_list(plan: StructPlan) -> FieldPlan | None:
    return next((field for field in plan.fields if field.spec.is_array), None)


def _produce(request: Any, plan: StructPlan, asked: StructPlan, error: ApiError) -> Any:
    # A producer that wants no acknowledgement reads none: all that it can notice is the end of its
    # connection.
    return None if request.acks == 0 else _mirrored(request, plan, asked, error, below=False)


def _fetch(request: Any, plan: StructPlan, asked: StructPlan, error: ApiError) -> Any:
    by_name = any(field.spec.name == "topic" for field in _part(asked, "topics").fields)
    reply = _mirrored(request, plan, asked, error, below=by_name)
    reply.session_id = request.session_id
    return reply


def _alter_replica_log_dirs(request: Any, plan: StructPlan, asked: StructPlan, error: ApiError) -> Any:
    # The request sorts topics by folder, the reply does not.
    topics = next(field for field in _part(asked, "dirs").fields if field.spec.name == "topics")
    results = _part(plan, "results")
    return plan.cls(
        results=[_result(results, topics, topic, error) for folder in request.dirs for topic in folder.topics]
    )


def _alter_user_scram_credentials(request: Any, plan: StructPlan, asked: StructPlan, error: ApiError) -> Any:
    users = dict.fromkeys(change.name for change in (*request.deletions, *request.upsertions))
    results = _part(plan, "results")
    reply = plan.cls(results=[results.cls(user=user) for user in users])
    for result in reply.results:
        _tell(result, results, error)
    return reply


def _alter_client_quotas(request: Any, plan: StructPlan, asked: StructPlan, error: ApiError) -> Any:
    entries = _part(plan, "entries")
    reply = plan.cls(entries=[entries.cls(entity=entry.entity) for entry in request.entries])
    for entry in reply.entries:
        _tell(entry, entries, error)
    return reply


def _describe_log_dirs(request: Any, plan: StructPlan, asked: StructPlan, error: ApiError) -> Any:
    # Results are folders of ours, not topics of the request: before v3 there is no place for the error at
    # all.
    reply = plan.cls()
    _tell(reply, plan, error)
    return reply


def _list_partition_reassignments(request: Any, plan: StructPlan, asked: StructPlan, error: ApiError) -> Any:
    reply = plan.cls()
    _tell(reply, plan, error)
    topics = _part(plan, "topics")
    partitions = _part(topics, "partitions")
    for topic in request.topics or ():
        found = [partitions.cls(partition_index=index) for index in topic.partition_indexes]
        reply.topics.append(topics.cls(name=topic.name, partitions=found))
    return reply


def _describe_user_scram_credentials(
    request: Any, plan: StructPlan, asked: StructPlan, error: ApiError
) -> Any:
    # One result for each user, of which none has a name.
    results = _part(plan, "results")
    reply = plan.cls(results=[results.cls() for _ in request.users or ()])
    _tell(reply, plan, error)
    for result in reply.results:
        _tell(result, results, error)
    return reply


def _part(plan: StructPlan, name: str) -> StructPlan:
    """The plan of the structs in a list."""
    part = next(field.struct for field in plan.fields if field.spec.name == name)
    assert part is not None
    return part


_OWN_WAYS: Final[dict[str, Callable[[Any, StructPlan, StructPlan, ApiError], Any]]] = {
    "ProduceResponse": _produce,
    "FetchResponse": _fetch,
    "AlterReplicaLogDirsResponse": _alter_replica_log_dirs,
    "AlterUserScramCredentialsResponse": _alter_user_scram_credentials,
    "AlterClientQuotasResponse": _alter_client_quotas,
    "DescribeLogDirsResponse": _describe_log_dirs,
    "DescribeUserScramCredentialsResponse": _describe_user_scram_credentials,
    "ListPartitionReassignmentsResponse": _list_partition_reassignments,
}
