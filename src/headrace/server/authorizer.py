"""Who may do what: the Authorizer, the questions that are put to it, and its answers as bits (KIP-430).

Which request asks what stands in the rows of `server/api_table.py`, in the words of `server/authority.py`. A
refusal is told in the log, by whom, from where and what for, as Kafka's authorizer logger does; one of each
kind at once, the rest counted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from headrace.security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, Resource
from headrace.security.standard_authorizer import StandardAuthorizer
from headrace.settings.definition import SettingError
from headrace.wire.apis import API, ApiKey

if TYPE_CHECKING:
    from headrace.server.context import RequestContext
    from headrace.settings.broker_config import BrokerConfig

__all__ = ["CLUSTER_NAME", "NOT_ASKED_FOR", "AllowAll", "Authorizer", "Operation", "Resource"]

logger = logging.getLogger(__name__)

NOT_ASKED_FOR: Final = -(2**31)
"""In place of the bits where the client did not ask."""


class Authorizer(Protocol):
    """Whether somebody may do something. The numbers are those of Operation and Resource."""

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, resource_name: str
    ) -> bool: ...

    def allows_by_resource_type(
        self, principal: str, host: str, operation: int, resource_type: int
    ) -> bool: ...


class AllowAll:
    """No authorizer is configured: everyone may do everything."""

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, resource_name: str
    ) -> bool:
        return True

    def allows_by_resource_type(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        return True


def authorizer_of(config: BrokerConfig) -> Authorizer:
    """The one that `authorizer.class.name` asks for."""
    if not config.str("authorizer.class.name"):
        return AllowAll()
    users = [user.strip() for user in config.str("super.users").split(";")]
    for user in users:
        if user and ":" not in user:
            raise SettingError(
                "super.users", f"{user!r} is no principal: it has a type and a name, as User:alice"
            )
    return StandardAuthorizer(
        super_users=filter(None, users), allows_without_acl=config.bool("allow.everyone.if.no.acl.found")
    )


def is_configured(authorizer: Authorizer) -> bool:
    """Whether anyone is ever refused: nobody is asked about otherwise."""
    return type(authorizer) is not AllowAll


def authorized_operations(context: RequestContext, resource: Resource, name: str) -> int:
    """One bit, by its number, for each operation that the client may do to this resource."""
    peer, authorizer = context.peer, context.parts.authorizer
    allowed = (
        operation
        for operation in SUPPORTED_OPERATIONS[resource]
        if authorizer.allows(peer.principal, peer.host, operation, resource, name)
    )
    return sum(1 << operation for operation in allowed)


def authorized_cluster_operations(context: RequestContext) -> int:
    """The same for the cluster: nothing for those who may not even look at it."""
    if not allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(context, Resource.CLUSTER, CLUSTER_NAME)


def allows(context: RequestContext, operation: Operation, resource: Resource, name: str) -> bool:
    """Whether the client may do this to the resource."""
    peer = context.peer
    return context.parts.authorizer.allows(peer.principal, peer.host, operation, resource, name)


def may_act_for_cluster(context: RequestContext) -> bool:
    """Whether the other side has the authority of a node: to ask what only nodes ask each other."""
    return allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)


def tell_denied(context: RequestContext, operation: Operation, resource: Resource, name: str) -> None:
    """Log that somebody was refused; many of them are summed up."""
    peer = context.peer
    if context.parts.audit is not None:
        context.parts.audit.on_decision(context, operation, resource, name, False)
    context.parts.request_log.denials.write(
        "Principal = %s is Denied operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s",
        *(peer.principal, operation.name, peer.host, resource.name, name),
        API[ApiKey(context.api_key)].name,
    )
