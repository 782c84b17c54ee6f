"""StandardAuthorizer beside a plain model of it: all rules looked at, one by one, for each question."""

import ipaddress
import random
from collections.abc import Iterable

import pytest

from headrace.base.errors import ApiError
from headrace.security.acl import (
    CIDR_SINCE,
    CLUSTER_NAME,
    EVERYONE,
    WILDCARD,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    range_of,
)
from headrace.security.standard_authorizer import StandardAuthorizer
from headrace.wire.schemas.metadata_records import AccessControlEntryRecord as Acl

LATEST = 30
HOST = "10.1.2.3"


def acl(
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    principal: str = "User:alice",
    host: str = WILDCARD,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    resource: Resource = Resource.TOPIC,
) -> Acl:
    content = f"{resource}{name}{pattern}{principal}{host}{operation}{permission}"
    return Acl(
        id=random.Random(content).randbytes(16),
        resource_type=resource,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def authorizer(*acls: Acl, version: int = LATEST, **settings: object) -> StandardAuthorizer:
    made = StandardAuthorizer(**settings)  # type: ignore[arg-type]
    made.follow({each.id: each for each in acls}, metadata_version=version)
    return made


def may(
    made: StandardAuthorizer,
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    principal: str = "User:alice",
    host: str = HOST,
    resource: Resource = Resource.TOPIC,
) -> bool:
    return made.allows(principal, host, operation, resource, name)


# -- the model -----------------------------------------------------------------------------------------------


def model_allows(
    acls: Iterable[Acl],
    principal: str,
    host: str,
    operation: int,
    resource: int,
    name: str,
    *,
    super_users: frozenset[str],
    allows_without_acl: bool,
    with_cidr: bool,
) -> bool:
    """As KIP-11, KIP-290 and KIP-1276 say it, word by word."""
    if principal in super_users:
        return True
    about = [each for each in acls if each.resource_type == resource and _is_about(each, name)]
    if not about:
        return allows_without_acl
    fitting = [
        each
        for each in about
        if each.principal in (principal, EVERYONE) and _is_host(each.host, host, with_cidr)
    ]
    if any(
        each.permission_type == Permission.DENY and each.operation in (operation, Operation.ALL)
        for each in fitting
    ):
        return False
    enough = {operation, Operation.ALL}
    if operation == Operation.DESCRIBE:
        enough |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation == Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    return any(each.permission_type == Permission.ALLOW and each.operation in enough for each in fitting)


def _is_about(rule: Acl, name: str) -> bool:
    if rule.pattern_type == PatternType.PREFIXED:
        return name.startswith(rule.resource_name)
    return rule.resource_name in (name, WILDCARD)


def _is_host(rule: str, host: str, with_cidr: bool) -> bool:
    if with_cidr and "/" in rule:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule)
    return rule in (WILDCARD, host)


NAMES = ("a", "ab", "abc", "abd", "b", "ba", WILDCARD, "")
PRINCIPALS = ("User:alice", "User:bob", "User:root", EVERYONE, "Group:alice")
HOSTS = ("10.1.2.3", "10.1.9.9", "192.168.0.1")
RULE_HOSTS = (*HOSTS, WILDCARD, "10.1.0.0/16", "10.1.2.0/24")


def some_acl(rng: random.Random) -> Acl:
    return Acl(
        id=rng.randbytes(16),
        resource_type=rng.choice([Resource.TOPIC, Resource.GROUP]),
        resource_name=rng.choice([name for name in NAMES if name]),
        pattern_type=rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        principal=rng.choice(PRINCIPALS),
        host=rng.choice(RULE_HOSTS),
        operation=rng.choice([each for each in Operation if each > Operation.ANY]),
        permission_type=rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    )


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_those_of_the_model_while_rules_come_and_go(seed: int) -> None:
    rng = random.Random(seed)
    super_users = frozenset({"User:root"})
    allows_without_acl = rng.random() < 0.5
    made = StandardAuthorizer(super_users=super_users, allows_without_acl=allows_without_acl)
    acls: dict[bytes, Acl] = {}
    for _ in range(12):
        for _ in range(rng.randrange(4)):
            new = some_acl(rng)
            acls[new.id] = new
        for gone in rng.sample(sorted(acls), min(len(acls), rng.randrange(3))):
            del acls[gone]
        version = rng.choice([LATEST, CIDR_SINCE])
        made.follow(acls, metadata_version=version)
        for _ in range(60):
            question = (
                *(rng.choice(PRINCIPALS), rng.choice(HOSTS)),
                *(rng.choice([*Operation]), rng.choice([Resource.TOPIC, Resource.GROUP]), rng.choice(NAMES)),
            )
            expected = model_allows(
                acls.values(),
                *question,
                super_users=super_users,
                allows_without_acl=allows_without_acl,
                with_cidr=version >= CIDR_SINCE,
            )
            assert made.allows(*question) is expected, (question, acls.values())


@pytest.mark.parametrize("seed", range(40))
def test_some_resource_is_found_where_the_model_has_one(seed: int) -> None:
    """KIP-679: what may be done to any topic at all, against every name that the rules can tell apart."""
    rng = random.Random(seed)
    acls = [some_acl(rng) for _ in range(rng.randrange(8))]
    made = authorizer(*acls)
    names = [name for name in NAMES if name and name != WILDCARD]
    names += [f"{name}{end}" for name in names for end in ("zz", "")]
    for principal in PRINCIPALS[:2]:
        held = made.allows_by_resource_type(principal, HOST, Operation.WRITE, Resource.TOPIC)
        is_any = any(made.allows(principal, HOST, Operation.WRITE, Resource.TOPIC, name) for name in names)
        assert held or not is_any, (principal, acls)


# -- rules, one by one ---------------------------------------------------------------------------------------


def test_nothing_is_allowed_where_no_rule_says_so() -> None:
    assert not may(authorizer())
    assert may(authorizer(allows_without_acl=True))
    assert not may(authorizer(acl(principal="User:bob"), allows_without_acl=True))


def test_a_denial_wins_over_whatever_allows() -> None:
    denial = acl(Operation.ALL, "ord", pattern=PatternType.PREFIXED, permission=Permission.DENY)
    assert not may(authorizer(acl(), acl(name=WILDCARD), denial))
    assert may(authorizer(acl(), denial, super_users=["User:alice"]))


@pytest.mark.parametrize("held", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_what_is_allowed_implies_describe_and_a_denial_does_not(held: Operation) -> None:
    assert may(authorizer(acl(held)), Operation.DESCRIBE)
    assert not may(authorizer(acl(held)), Operation.DESCRIBE_CONFIGS)
    denied = authorizer(acl(held, permission=Permission.DENY), acl(Operation.DESCRIBE))
    assert may(denied, Operation.DESCRIBE)
    assert not may(denied, held)


def test_altering_settings_implies_describing_them() -> None:
    made = authorizer(acl(Operation.ALTER_CONFIGS))
    assert may(made, Operation.DESCRIBE_CONFIGS)
    assert not may(made, Operation.DESCRIBE)


def test_a_prefix_is_the_beginning_of_a_name() -> None:
    made = authorizer(acl(name="ord", pattern=PatternType.PREFIXED))
    assert [may(made, name=name) for name in ("ord", "orders", "or", "xord")] == [True, True, False, False]


def test_the_wildcard_is_one_of_literal_rules_only() -> None:
    assert may(authorizer(acl(name=WILDCARD)))
    assert not may(authorizer(acl(name=WILDCARD, pattern=PatternType.PREFIXED)))


def test_hosts_are_compared_as_addresses() -> None:
    made = authorizer(acl(host="0:0:0:0:0:0:0:1"), acl(host="10.0.0.7"))
    assert may(made, host="::1")
    assert may(made, host="::ffff:10.0.0.7")
    assert not may(made, host="10.0.0.8")


def test_ranges_of_hosts_count_from_their_metadata_version_on() -> None:
    rule = acl(host="10.1.0.0/16")
    assert not may(authorizer(rule, version=CIDR_SINCE - 1))
    made = authorizer(rule, version=CIDR_SINCE)
    assert may(made)
    assert not may(made, host="10.2.0.1")
    made.follow({rule.id: rule}, metadata_version=CIDR_SINCE - 1)
    assert not may(made)


@pytest.mark.parametrize(
    "host", ["10.0.0.0/255.0.0.0", "::ffff:10.0.0.0/104", "10.0.0.0/", "x/8", "10.0.0.0/8/8"]
)
def test_what_is_no_range_is_nobodys_address(host: str) -> None:
    """An older version may have let it be written down."""
    with pytest.raises(ValueError, match=r"prefix|address"):
        range_of(host)
    assert not may(authorizer(acl(host=host), version=CIDR_SINCE), host="10.0.0.0")


def test_tokens_and_users_have_rules_too() -> None:
    made = authorizer(
        acl(Operation.DESCRIBE, "token-1", resource=Resource.DELEGATION_TOKEN),
        acl(Operation.CREATE_TOKENS, "User:bob", resource=Resource.USER),
    )
    assert may(made, Operation.DESCRIBE, "token-1", resource=Resource.DELEGATION_TOKEN)
    assert may(made, Operation.CREATE_TOKENS, "User:bob", resource=Resource.USER)
    assert not may(made, Operation.DESCRIBE_TOKENS, "User:bob", resource=Resource.USER)


def test_before_the_rules_are_known_only_super_users_are_let_in() -> None:
    made = StandardAuthorizer(super_users=["User:broker"])
    assert may(
        made, Operation.CLUSTER_ACTION, CLUSTER_NAME, principal="User:broker", resource=Resource.CLUSTER
    )
    with pytest.raises(ApiError, match=r"super\.users"):
        may(made)
    made.follow({}, metadata_version=LATEST)
    assert not may(made)


def test_an_answer_counts_until_a_rule_changes() -> None:
    rule = acl()
    made = authorizer(rule)
    assert may(made)
    made.follow({}, metadata_version=LATEST)
    assert not may(made)
    made.follow({rule.id: rule}, metadata_version=LATEST)
    assert may(made)


def test_removing_one_rule_leaves_the_others_of_its_resource() -> None:
    """CVE-2024-27309: a resource with several rules lost those that were left."""
    rules = [acl(), acl(Operation.WRITE), acl(permission=Permission.DENY, principal="User:bob")]
    made = authorizer(*rules, allows_without_acl=True)
    made.follow({each.id: each for each in rules[1:]}, metadata_version=LATEST)
    assert not may(made)
    assert may(made, Operation.WRITE)
    assert not may(made, principal="User:bob")
    assert not may(made, principal="User:carol")  # rules speak of the topic still


def test_a_question_meets_few_of_many_rules() -> None:
    """Ten thousand rules, of which each resource and each principal has a few: no question walks them all."""
    rules = [acl(name=f"t{n}", principal=f"User:u{n % 100}") for n in range(10_000)]
    rules += [acl(name="shared", principal=f"User:u{n}") for n in range(5_000)]
    made = authorizer(*rules)
    looked_at = 0

    class Counted(dict):  # type: ignore[type-arg]
        def values(self):  # type: ignore[no-untyped-def]
            nonlocal looked_at
            looked_at += len(self)
            return super().values()

    for names in (made._types[Resource.TOPIC].literal, made._types[Resource.TOPIC].prefixed):
        for principals in names.values():
            for principal, of_principal in principals.items():
                principals[principal] = Counted(of_principal)
    for n in range(0, 5_000, 7):
        assert may(made, name=f"t{n}", principal=f"User:u{n % 100}")
        assert may(made, name="shared", principal=f"User:u{n}")
    questions = 2 * len(range(0, 5_000, 7))
    assert looked_at <= 2 * questions
    before = looked_at
    assert may(made, name="t7", principal="User:u7")
    assert looked_at == before  # it was asked before


# -- filters -------------------------------------------------------------------------------------------------

FILTERED = [
    acl(name="orders"),
    acl(name=WILDCARD),
    acl(name="ord", pattern=PatternType.PREFIXED),
    acl(name="order", pattern=PatternType.PREFIXED),
    acl(name="bills"),
]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (AclFilter(), ["orders", "*", "ord", "order", "bills"]),
        (AclFilter(resource_name="orders"), ["orders"]),
        (AclFilter(resource_name="orders", pattern_type=PatternType.LITERAL), ["orders"]),
        (AclFilter(resource_name="orders", pattern_type=PatternType.PREFIXED), []),
        (AclFilter(resource_name="ord", pattern_type=PatternType.PREFIXED), ["ord"]),
        (AclFilter(resource_name="orders", pattern_type=PatternType.MATCH), ["orders", "*", "ord", "order"]),
        (AclFilter(pattern_type=PatternType.PREFIXED), ["ord", "order"]),
        (AclFilter(resource_type=Resource.GROUP), []),
        (AclFilter(principal="User:bob"), []),
        (AclFilter(host="10.0.0.1"), []),
        (AclFilter(operation=Operation.WRITE), []),
        (AclFilter(permission_type=Permission.DENY), []),
    ],
)
def test_a_filter_names_rules(wanted: AclFilter, names: list[str]) -> None:
    assert [each.resource_name for each in FILTERED if wanted.matches(each)] == names
