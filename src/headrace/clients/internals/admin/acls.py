"""Access rules, as an administrator makes, lists and takes them away.

Words are Kafka's, in letters of any case: `allow`, `deny`, `read`, `describe_configs`, `topic`, `prefixed`.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.clients.errors import ClientError, raise_for
from headrace.clients.internals.network_client import NetworkClient
from headrace.security.acl import CLUSTER_NAME, WILDCARD, Operation, PatternType, Permission, Resource
from headrace.wire.schemas.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.schemas.describe_acls import DescribeAclsRequest

ANY = "any"
"""In a filter: all there are."""


class AclBinding(NamedTuple):
    """A rule: whether somebody, from somewhere, may do something to the resources of a name or a prefix."""

    principal: str
    operation: str
    resource_type: str
    resource_name: str = CLUSTER_NAME
    pattern: str = "literal"
    permission: str = "allow"
    host: str = WILDCARD


class AclBindingFilter(NamedTuple):
    """Which rules are meant; None and "any" stand for all. The pattern "match" finds the rules that apply to
    a resource of the name, by whatever pattern.
    """

    principal: str | None = None
    operation: str = ANY
    resource_type: str = ANY
    resource_name: str | None = None
    pattern: str = ANY
    permission: str = ANY
    host: str | None = None


EVERY_ACL = AclBindingFilter()


async def create_acls(client: NetworkClient, acls: AclBinding | Iterable[AclBinding]) -> None:
    """Make rules; the first that cannot be made is named in the error, others may be made."""
    wanted = [acls] if isinstance(acls, AclBinding) else list(acls)
    request = CreateAclsRequest([_creation(each) for each in wanted])

    async def ask() -> None:
        results = (await client.call(request)).results
        for acl, result in zip(wanted, results, strict=True):
            raise_for(ErrorCode(result.error_code), f"make the ACL {tell(acl)}", result.error_message)

    await client.patiently(ask)


async def describe_acls(client: NetworkClient, wanted: AclBindingFilter) -> list[AclBinding]:
    """The rules that a filter names, by resource."""
    request = DescribeAclsRequest(*_filter(wanted))

    async def ask() -> list[AclBinding]:
        reply = await client.call(request)
        raise_for(ErrorCode(reply.error_code), "list ACLs", reply.error_message)
        return [
            _binding(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for resource in reply.resources
            for acl in resource.acls
        ]

    return sorted(await client.patiently(ask), key=_place)


async def delete_acls(client: NetworkClient, wanted: AclBindingFilter) -> list[AclBinding]:
    """Take the rules away that a filter names; which they were."""
    request = DeleteAclsRequest([DeleteAclsFilter(*_filter(wanted))])

    async def ask() -> list[AclBinding]:
        (result,) = (await client.call(request)).filter_results
        raise_for(ErrorCode(result.error_code), "take ACLs away", result.error_message)
        return [
            _binding(
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for acl in result.matching_acls
        ]

    return sorted(await client.patiently(ask), key=_place)


def tell(acl: AclBinding) -> str:
    """A rule in one line for people."""
    end = "…" if acl.pattern == "prefixed" else ""
    return (
        f"{acl.permission} {acl.principal} from {acl.host} to {acl.operation} "
        f"{acl.resource_type} {acl.resource_name}{end}"
    )


def _place(acl: AclBinding) -> tuple[str, ...]:
    return acl.resource_type, acl.resource_name, acl.pattern, acl.principal, acl.operation, acl.host


def _creation(acl: AclBinding) -> AclCreation:
    return AclCreation(
        _number(Resource, acl.resource_type),
        acl.resource_name,
        _number(PatternType, acl.pattern),
        acl.principal,
        acl.host,
        _number(Operation, acl.operation),
        _number(Permission, acl.permission),
    )


def _filter(wanted: AclBindingFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    return (
        _number(Resource, wanted.resource_type),
        wanted.resource_name,
        _number(PatternType, wanted.pattern),
        wanted.principal,
        wanted.host,
        _number(Operation, wanted.operation),
        _number(Permission, wanted.permission),
    )


def _binding(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission_type: int,
) -> AclBinding:
    return AclBinding(
        principal,
        _word(Operation, operation),
        _word(Resource, resource_type),
        resource_name,
        _word(PatternType, pattern_type),
        _word(Permission, permission_type),
        host,
    )


def _number(kind: type[IntEnum], word: str) -> int:
    try:
        return kind[word.upper().replace("-", "_")]
    except KeyError:
        words = ", ".join(each.name.lower() for each in kind if each)
        raise ClientError(f"{word!r} is no {kind.__name__.lower()} of an ACL: it is one of {words}") from None


def _word(kind: type[IntEnum], number: int) -> str:
    return kind(number).name.lower() if number in list(kind) else str(number)
