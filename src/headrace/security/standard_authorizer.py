"""StandardAuthorizer: who may do what, by the rules of the metadata image (KIP-801).

A rule applies to a resource by its literal name, by the beginning of it (PREFIXED), or to all of its type
(the literal name `*`). If any rule that applies denies, the answer is no; else, if one allows, yes. Where
none speaks of the resource at all, `allow.everyone.if.no.acl.found` decides; where only others' rules do, the
answer is no. Super users need no rules, and no rule holds them back. What is allowed implies what is needed
to use it: READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS. A denial
implies nothing.

Rules lie by type, pattern, name and principal, so that a question meets only those of its own resource and
principal: one lookup for the name, one for `*`, and one for each length that prefixes have. Answers are kept
until a rule changes. Nothing here knows time or network; `follow` is called with the image's rules when they
have changed, before anyone is answered by the new image.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.security.acl import (
    CIDR_SINCE,
    EVERYONE,
    WILDCARD,
    Network,
    Operation,
    PatternType,
    Permission,
    range_of,
)

if TYPE_CHECKING:
    from headrace.wire.schemas.metadata_records import AccessControlEntryRecord

logger = logging.getLogger(__name__)

ANSWERS_MAX: Final = 100_000
"""Answers that are kept; some 20 MB. A stranger may ask for as many names as he likes."""

IMPLIES: Final[dict[int, frozenset[int]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Which operations, when allowed, allow this one."""


class _Rule(NamedTuple):
    """What a rule says, without the resource and principal it lies under."""

    host: str | Network
    operation: int
    allows: bool

    def applies(self, host: str, operation: int) -> bool:
        if self.operation not in (operation, Operation.ALL) and not (
            self.allows and self.operation in IMPLIES.get(operation, ())
        ):
            return False
        if isinstance(self.host, str):
            return self.host in (WILDCARD, host)
        return _is_within(host, self.host)


_Rules: TypeAlias = dict[bytes, _Rule]
_ByPrincipal: TypeAlias = dict[str, _Rules]


class _OfType:
    """The rules about one type of resource."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _ByPrincipal] = {}
        self.prefixed: dict[str, _ByPrincipal] = {}
        self.lengths: Counter[int] = Counter()  # of prefixes

    def add(self, acl: AccessControlEntryRecord, rule: _Rule) -> None:
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        names = self.prefixed if is_prefix else self.literal
        if is_prefix and acl.resource_name not in names:
            self.lengths[len(acl.resource_name)] += 1
        names.setdefault(acl.resource_name, {}).setdefault(acl.principal, {})[acl.id] = rule

    def remove(self, acl: AccessControlEntryRecord) -> None:
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        names = self.prefixed if is_prefix else self.literal
        principals = names[acl.resource_name]
        del principals[acl.principal][acl.id]
        if not principals[acl.principal]:
            del principals[acl.principal]
        if not principals:
            del names[acl.resource_name]
            if is_prefix:
                self.lengths[len(acl.resource_name)] -= 1
                if not self.lengths[len(acl.resource_name)]:
                    del self.lengths[len(acl.resource_name)]

    def about(self, name: str) -> Iterator[_ByPrincipal]:
        """All that applies to a resource of this name."""
        found = self.literal.get(name)
        if found is not None:
            yield found
        found = self.literal.get(WILDCARD)
        if found is not None and name != WILDCARD:
            yield found
        for length in self.lengths:
            if length <= len(name):
                found = self.prefixed.get(name[:length])
                if found is not None:
                    yield found


class StandardAuthorizer:
    """Kafka's authorizer. Until `follow` was called once, only super users are let do anything."""

    def __init__(self, *, super_users: Iterable[str] = (), allows_without_acl: bool = False) -> None:
        self.super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self.is_loaded = False
        self._with_cidr = False
        self._acls: dict[bytes, AccessControlEntryRecord] = {}
        self._types: dict[int, _OfType] = {}
        self._answers: dict[tuple[str, str, int, int, str], bool] = {}

    # -- following the image ---------------------------------------------------------------------------------

    def follow(self, acls: Mapping[bytes, AccessControlEntryRecord], *, metadata_version: int) -> None:
        """Take on the rules there are now. What was answered before counts no longer."""
        with_cidr = metadata_version >= CIDR_SINCE
        if with_cidr != self._with_cidr:
            self._with_cidr = with_cidr
            self._change({}, list(self._acls))
        # A rule never changes under its id: it is taken away, and another one made.
        gone, new = self._acls.keys() - acls.keys(), acls.keys() - self._acls.keys()
        self._change({id_: acls[id_] for id_ in new}, gone)
        if not self.is_loaded:
            self.is_loaded = True
            logger.info("the authorizer has loaded %d ACLs", len(self._acls))

    def _change(self, new: Mapping[bytes, AccessControlEntryRecord], gone: Iterable[bytes]) -> None:
        for id_ in gone:
            acl = self._acls.pop(id_)
            self._types[acl.resource_type].remove(acl)
        for id_, acl in new.items():
            self._acls[id_] = acl
            self._types.setdefault(acl.resource_type, _OfType()).add(acl, self._rule(acl))
        self._answers.clear()

    def _rule(self, acl: AccessControlEntryRecord) -> _Rule:
        return _Rule(_host(acl.host, self._with_cidr), acl.operation, acl.permission_type == Permission.ALLOW)

    @property
    def acls(self) -> Iterable[AccessControlEntryRecord]:
        return self._acls.values()

    # -- answering -------------------------------------------------------------------------------------------

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether somebody may do something to a resource."""
        question = (principal, host, operation, resource_type, name)
        answer = self._answers.get(question)
        if answer is None:
            answer = self._decide(*question)
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[question] = answer
        return answer

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self.super_users:
            return True
        self._check_loaded()
        host = _canonical(host)
        speaks_of_it = allowed = False
        rules = self._types.get(resource_type)
        for by_principal in () if rules is None else rules.about(name):
            speaks_of_it = True
            for rule in _of(by_principal, principal):
                if rule.applies(host, operation):
                    if not rule.allows:
                        return False
                    allowed = True
        return allowed or (not speaks_of_it and self._allows_without_acl)

    def allows_by_resource_type(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether there is any resource of this type to which somebody may do something (KIP-679)."""
        # A name that no rule has: super users, and everyone where no rule speaks of it.
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        allowed: list[tuple[int, str]] = []
        denied: set[tuple[int, str]] = set()
        host = _canonical(host)
        for acl in self._acls.values():
            if acl.resource_type != resource_type or acl.principal not in (principal, EVERYONE):
                continue
            rule = self._rule(acl)
            if acl.operation not in (operation, Operation.ALL) or not rule.applies(host, operation):
                continue
            pattern = (acl.pattern_type, acl.resource_name)
            if rule.allows:
                allowed.append(pattern)
            elif pattern == (PatternType.LITERAL, WILDCARD):
                return False
            else:
                denied.add(pattern)
        return any(not _is_dominated(pattern, denied) for pattern in allowed)

    def _check_loaded(self) -> None:
        if not self.is_loaded:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "the authorizer has not loaded its ACLs yet: until then only super.users may do anything. "
                "Name the principals of brokers and controllers there",
            )


def _of(by_principal: _ByPrincipal, principal: str) -> Iterator[_Rule]:
    for who in (principal, EVERYONE) if principal != EVERYONE else (EVERYONE,):
        rules = by_principal.get(who)
        if rules is not None:
            yield from rules.values()


def _is_dominated(pattern: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Whether all that a pattern allows is denied by another one."""
    kind, name = pattern
    if kind == PatternType.LITERAL and name == WILDCARD:
        return False
    if kind == PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def _host(host: str, with_cidr: bool) -> str | Network:
    if with_cidr and "/" in host:
        try:
            return range_of(host)
        except ValueError:
            return host  # as any other text that is nobody's address
    return _canonical(host)


@lru_cache(ANSWERS_MAX)
def _canonical(host: str) -> str:
    """One form for all texts of an address: Java writes IPv6 without ::, and an IPv4 one that was mapped to
    IPv6 as what it was."""
    if host == WILDCARD:
        return host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_within(host: str, network: Network) -> bool:
    try:
        return ipaddress.ip_address(host) in network
    except ValueError:
        return False
