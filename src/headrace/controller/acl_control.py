"""ACLs as records: rules are made and taken away (Kafka's AclControlManager).

A rule that is there already is not made twice: the reply is the same. Rules are taken away by their ids,
exactly those that a filter names (CVE-2024-27309), each once, though several filters name it.

A rule's host may be a range of addresses from 4.4-IV1 on (KIP-1276). Before that a range is refused, and any
other text is taken as it is, as Kafka 4.3 does: such a rule is about nobody.
"""

import random
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Protocol

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import new_uuid
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult, check_size
from headrace.metadata.features import METADATA_VERSION_NAMES
from headrace.security.acl import (
    CIDR_SINCE,
    CLUSTER_NAME,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    range_of,
)
from headrace.wire.schemas.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headrace.wire.schemas.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headrace.wire.schemas.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)

_FOR_FILTERS: Final = ("UNKNOWN", "ANY", "MATCH")
"""What no rule can say."""


def create_acls(
    cluster: ClusterState, request: CreateAclsRequest, *, rng: random.Random
) -> ControllerResult[CreateAclsResponse]:
    """Each rule is made or refused by itself."""
    with_cidr = cluster.image.metadata_version >= CIDR_SINCE
    known = {_content(acl) for acl in cluster.image.security.acls.values()}
    records: list[AccessControlEntryRecord] = []
    results: list[AclCreationResult] = []
    for creation in request.creations:
        try:
            _check(creation)
            _check_host(creation.host, with_cidr=with_cidr)
        except ApiError as error:
            results.append(AclCreationResult(error.code, error.message))
            continue
        results.append(AclCreationResult())
        record = _record(creation)
        if _content(record) not in known:
            known.add(_content(record))
            record.id = new_uuid(rng)
            records.append(record)
    check_size(records)
    return ControllerResult(records, CreateAclsResponse(results=results))


def delete_acls(cluster: ClusterState, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
    """Each filter tells which rules it has taken away."""
    acls = cluster.image.security.acls
    gone: dict[bytes, RemoveAccessControlEntryRecord] = {}
    results = []
    for each in request.filters:
        try:
            found = _matching(acls, filter_of(each))
        except ApiError as error:
            results.append(DeleteAclsFilterResult(error.code, error.message))
            continue
        gone |= {acl.id: RemoveAccessControlEntryRecord(acl.id) for acl in found}
        results.append(DeleteAclsFilterResult(ErrorCode.NONE, None, [_told(acl) for acl in found]))
    check_size(list(gone.values()))
    return ControllerResult(list(gone.values()), DeleteAclsResponse(filter_results=results))


class _Filter(Protocol):
    """How requests write a filter."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def filter_of(asked: _Filter) -> AclFilter:
    """INVALID_REQUEST for a filter with numbers that mean nothing."""
    if not _is_known(asked.resource_type_filter, Resource) or not _is_known(
        asked.pattern_type_filter, PatternType
    ):
        raise _wrong("Unknown patternFilter.")
    if not _is_known(asked.operation, Operation) or not _is_known(asked.permission_type, Permission):
        raise _wrong("Unknown entryFilter.")
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _is_known(number: int, kind: type[IntEnum]) -> bool:
    return number != 0 and number in list(kind)


def _matching(
    acls: Mapping[bytes, AccessControlEntryRecord], wanted: AclFilter
) -> list[AccessControlEntryRecord]:
    return [acl for acl in acls.values() if wanted.matches(acl)]


def _check(creation: AclCreation) -> None:
    """INVALID_REQUEST, in Kafka's words, for what can be no rule."""
    if creation.resource_type == Resource.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _wrong(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise _wrong("Invalid empty resource name")
    _check_number("resourceType", creation.resource_type, Resource)
    _check_number("patternType", creation.resource_pattern_type, PatternType)
    _check_number("operation", creation.operation, Operation)
    _check_number("permissionType", creation.permission_type, Permission)
    if ":" not in creation.principal:
        raise _wrong(
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )


def _check_host(host: str, *, with_cidr: bool) -> None:
    """UNSUPPORTED_VERSION for a range that the cluster's metadata.version does not know yet, INVALID_REQUEST
    for one that is none."""
    if "/" not in host:
        if with_cidr and not host:
            raise _wrong("Host pattern cannot be null or empty")
        return
    if not with_cidr:
        what = "CIDR-based ACL host patterns require metadata version"
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"{what} {METADATA_VERSION_NAMES[CIDR_SINCE]} or higher."
        )
    try:
        range_of(host)
    except ValueError as error:
        raise _wrong(f"Invalid CIDR notation '{host}': {error}") from None


def _check_number(what: str, number: int, kind: type[IntEnum]) -> None:
    name = kind(number).name if number in list(kind) else "UNKNOWN"
    if name in _FOR_FILTERS:
        raise _wrong(f"Invalid {what} {name}")


def _wrong(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _record(creation: AclCreation) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _content(acl: AccessControlEntryRecord) -> tuple[object, ...]:
    """All that makes two rules the same."""
    return (
        *(acl.resource_type, acl.resource_name, acl.pattern_type),
        *(acl.principal, acl.host, acl.operation, acl.permission_type),
    )


def _told(acl: AccessControlEntryRecord) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
