"""The words of access control lists: resources, patterns, operations, permissions, and filters of rules.

The numbers are Kafka's, of the wire and of the metadata log alike. A rule is the record that made it
(`AccessControlEntryRecord`): who (`principal`), from where (`host`), may or may not (`permission_type`) do
what (`operation`) to which resources (type, name and pattern).
"""

from __future__ import annotations

import ipaddress
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Resource(IntEnum):
    """Kinds of things that rules are about (Kafka's ResourceType)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule's name stands for names. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What can be done to a thing (Kafka's AclOperation)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Kafka's AclPermissionType."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of its type."""

WILDCARD: Final = "*"
"""Any name, as a literal one of a resource; any host; and behind `User:` any principal."""

EVERYONE: Final = "User:*"

SUPPORTED_OPERATIONS: Final[dict[Resource, tuple[Operation, ...]]] = {
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
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What a rule of each resource can be about (Kafka's AclEntry.supportedOperations)."""


CIDR_SINCE: Final = 32
"""The level of metadata.version from which on a rule's host may be a range (4.4-IV1, KIP-1276)."""


def range_of(host: str) -> Network:
    """The addresses that a rule's host means, `10.1.0.0/16` or `2001:db8::/32`; ValueError where it is none.

    The length of the prefix is a number: masks, which Python would read too, are not Kafka's. An IPv4 range
    is written as one, for addresses are compared in that form.
    """
    address, _, length = host.partition("/")
    if not (length.isascii() and length.isdecimal()):
        raise ValueError(f"{length!r} is not the length of a prefix")
    if getattr(ipaddress.ip_address(address), "ipv4_mapped", None) is not None:
        raise ValueError(f"{address!r} is an IPv4 address")
    return ipaddress.ip_network(host, strict=False)


class Acl(Protocol):
    """The face of a rule that filters look at; `AccessControlEntryRecord` has it."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """Which rules are meant; None and ANY stand for all (Kafka's AclBindingFilter)."""

    resource_type: int = Resource.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission_type: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (Resource.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission_type in (Permission.ANY, acl.permission_type)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


def described(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission_type: int,
) -> str:
    """A rule in one line for people: `ALLOW User:alice from * to READ on PREFIXED TOPIC orders-`."""
    return (
        f"{_word(Permission, permission_type)} {principal} from {host} to {_word(Operation, operation)} on "
        f"{_word(PatternType, pattern_type)} {_word(Resource, resource_type)} {resource_name}"
    )


def _word(kind: type[IntEnum], number: int) -> str:
    return kind(number).name if number in list(kind) else str(number)
