"""What somebody may do to a thing, as the bits that replies tell it in (KIP-430)."""

from enum import IntEnum
from typing import Final

from headrace.server.context import RequestContext

NOT_ASKED_FOR: Final = -(2**31)
"""In place of the bits where the client did not ask."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of its type."""


class Resource(IntEnum):
    """Kinds of things that rules are about; the numbers are Kafka's."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """What can be done to a thing; the numbers are Kafka's."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    TWO_PHASE_COMMIT = 15


_MEANINGFUL: Final = {
    Resource.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
        *(Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    Resource.GROUP: (
        *(Operation.READ, Operation.DELETE, Operation.DESCRIBE),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    Resource.CLUSTER: (
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
    ),
}


def authorized_operations(context: RequestContext, resource: Resource, name: str) -> int:
    """One bit, by its number, for each operation that the client may do to this resource."""
    peer, authorizer = context.connection, context.parts.authorizer
    allowed = (
        operation
        for operation in _MEANINGFUL[resource]
        if authorizer.allows(peer.principal, peer.host, operation, resource, name)
    )
    return sum(1 << operation for operation in allowed)


def allows(context: RequestContext, operation: Operation, resource: Resource, name: str) -> bool:
    """Whether the client may do this to the resource."""
    peer = context.connection
    return context.parts.authorizer.allows(peer.principal, peer.host, operation, resource, name)


def may_act_for_cluster(context: RequestContext) -> bool:
    """Whether the other side has the authority of a node: to ask what only nodes ask each other."""
    return allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
