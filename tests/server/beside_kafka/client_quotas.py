"""DescribeClientQuotas and AlterClientQuotas: filters, what is refused and in which words, and which of all
quotas that fit a client binds it."""

from headrace.wire.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from headrace.wire.schemas.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import Talk, batch

USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCED, FETCHED, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CHANGES, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"

Names = dict[str, str | None]


def alter(
    *entries: tuple[Names, dict[str, float | None]], validate_only: bool = False
) -> AlterClientQuotasRequest:
    """Limits for entities; None removes one."""
    return AlterClientQuotasRequest(
        [
            RequestEntryData(
                [EntityData(kind, name) for kind, name in names.items()],
                [OpData(key, value or 0.0, value is None) for key, value in limits.items()],
            )
            for names, limits in entries
        ],
        validate_only,
    )


def describe(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict)


async def script(talk: Talk) -> None:
    await clean(talk)
    await changes(talk)
    await filters(talk)
    await clean(talk)
    await precedence(talk)
    await clean(talk)


async def clean(talk: Talk) -> None:
    """Recordings before this one left quotas, and others must not find ours."""
    found = await (await talk.begin(describe(), 1))
    entries = [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            dict.fromkeys(value.key for value in entry.values),
        )
        for entry in found.entries
    ]
    if entries:
        await (await talk.begin(alter(*entries), 1))
        await talk.pass_time(500)


async def _alter(
    talk: Talk, label: str, *entries: tuple[Names, dict[str, float | None]], **options: bool
) -> None:
    """Write down each result with its words."""
    reply = await (await talk.begin(alter(*entries, **options), 1))
    for entry in sorted(reply.entries, key=repr):
        names = sorted((each.entity_type, each.entity_name or "<default>") for each in entry.entity)
        talk.lines.append(f"{label}: {names} {entry.error_code} {entry.error_message}")


async def changes(talk: Talk) -> None:
    talk.title("What can be set")
    alice: Names = {USER: "alice"}
    await _alter(talk, "two limits", (alice, {PRODUCED: 1000.0, TIME: 12.5}))
    await _alter(talk, "again", (alice, {PRODUCED: 1000.0}))
    await _alter(talk, "user and client", ({USER: "alice", CLIENT: "app"}, {FETCHED: 2000.0}))
    await _alter(talk, "defaults", ({USER: None}, {CHANGES: 1.5}), ({CLIENT: None}, {PRODUCED: 5.0}))
    await _alter(talk, "both defaults", ({USER: None, CLIENT: None}, {PRODUCED: 6.0}))
    await _alter(
        talk, "an address", ({IP: "10.1.2.3"}, {CONNECTIONS: 10.0}), ({IP: None}, {CONNECTIONS: 99.0})
    )
    await _alter(talk, "an address of IPv6", ({IP: "2001:db8::1"}, {CONNECTIONS: 10.0}))
    await _alter(talk, "only checked", ({USER: "bob"}, {PRODUCED: 1.0}), validate_only=True)
    await _alter(talk, "removed and never set", (alice, {TIME: None, FETCHED: None}))
    await _alter(talk, "nothing", (alice, {}))
    await talk.ask("no entries", alter(), 0)
    talk.title("What is refused")
    refused: list[tuple[Names, dict[str, float | None]]] = [
        ({}, {PRODUCED: 1.0}),
        ({"group": "g"}, {PRODUCED: 1.0}),
        ({USER: ""}, {PRODUCED: 1.0}),
        ({CLIENT: ""}, {PRODUCED: 1.0}),
        ({IP: ""}, {CONNECTIONS: 1.0}),
        ({USER: "alice", IP: "10.1.2.3"}, {PRODUCED: 1.0}),
        ({IP: "not an address"}, {CONNECTIONS: 1.0}),
        (alice, {CONNECTIONS: 1.0}),
        ({IP: "10.1.2.3"}, {PRODUCED: 1.0}),
        (alice, {"some_rate": 1.0}),
        (alice, {PRODUCED: 0.0}),
        (alice, {PRODUCED: -1.0}),
        (alice, {TIME: -1.0}),
        (alice, {CHANGES: 0.0}),
        (alice, {PRODUCED: 1.5}),
        (alice, {PRODUCED: 1e19}),
        ({IP: "10.1.2.3"}, {CONNECTIONS: 3e9}),
        ({IP: "10.1.2.3"}, {CONNECTIONS: 1.5}),
        (alice, {"some_rate": None}),
    ]
    for names, limits in refused:
        await _alter(talk, f"{names} {limits}", (names, limits))
    await _alter(talk, "one of two is wrong", (alice, {FETCHED: 1.0, "some_rate": 1.0}))
    await _alter(talk, "an entity twice", (alice, {FETCHED: 7.0}), (alice, {FETCHED: 8.0}))
    twice = alter((alice, {FETCHED: 9.0}))
    twice.entries[0].ops *= 2
    reply = await (await talk.begin(twice, 1))
    talk.lines.append(f"a limit twice: {reply.entries[0].error_code} {reply.entries[0].error_message}")
    await talk.pass_time(500)


async def _describe(talk: Talk, label: str, request: DescribeClientQuotasRequest) -> None:
    reply = await (await talk.begin(request, 1))
    talk.lines.append(f"{label}: {reply.error_code} {reply.error_message or ''}")
    found = [
        (
            sorted((each.entity_type, each.entity_name or "<default>") for each in entry.entity),
            sorted((value.key, value.value) for value in entry.values),
        )
        for entry in reply.entries or []
    ]
    talk.lines += [f"  {names} {limits}" for names, limits in sorted(found)]


async def filters(talk: Talk) -> None:
    talk.title("Filters")
    for strict in (False, True):
        await _describe(talk, f"all, strict {strict}", describe(strict=strict))
        await _describe(talk, f"alice, strict {strict}", describe((USER, 0, "alice"), strict=strict))
        await _describe(talk, f"default user, strict {strict}", describe((USER, 1, None), strict=strict))
        await _describe(talk, f"any user, strict {strict}", describe((USER, 2, None), strict=strict))
        both = describe((USER, 2, None), (CLIENT, 2, None), strict=strict)
        await _describe(talk, f"any user and client, strict {strict}", both)
        named = describe((USER, 0, "alice"), (CLIENT, 0, "app"), strict=strict)
        await _describe(talk, f"alice's app, strict {strict}", named)
        await _describe(talk, f"any address, strict {strict}", describe((IP, 2, None), strict=strict))
    await _describe(talk, "nobody", describe((USER, 0, "nobody")))
    talk.title("What is no filter")
    for component in (
        ("", 0, "a"),
        ("group", 0, "g"),
        (USER, 0, None),
        (USER, 1, "alice"),
        (USER, 2, "alice"),
        (USER, 3, None),
    ):
        await _describe(talk, repr(component), describe(component))
    await _describe(talk, "a type twice", describe((USER, 0, "alice"), (USER, 1, None)))
    await _describe(talk, "a user's address", describe((USER, 0, "alice"), (IP, 2, None)))


ANONYMOUS = "ANONYMOUS"
LEVELS: list[Names] = [
    {USER: ANONYMOUS, CLIENT: "app"},
    {USER: ANONYMOUS, CLIENT: None},
    {USER: ANONYMOUS},
    {USER: None, CLIENT: "app"},
    {USER: None, CLIENT: None},
    {USER: None},
    {CLIENT: "app"},
    {CLIENT: None},
]
"""The most specific first."""
RECORD_BYTES = 60_000
LONGEST_MS = 12_000


async def precedence(talk: Talk) -> None:
    """All eight levels are set, each to a limit of its own. What a client is told to wait shows which limit
    binds it; then that one is removed. The same without the order: one level at a time beside the last."""
    talk.title("Which quota binds a client")
    topic = talk.name("quotas")
    topic_id = await talk.topic("quotas")
    request = produce(topic, batch(1, size=RECORD_BYTES), topic_id=topic_id)
    limits = {index: 3200.0 + 300 * index for index in range(len(LEVELS))}
    await (
        await talk.begin(
            alter(*((names, {PRODUCED: limits[index]}) for index, names in enumerate(LEVELS))), 1
        )
    )
    for index, names in enumerate(LEVELS):
        await talk.pass_time(LONGEST_MS)
        reply = await (await talk.begin(request, 9, client="app"))
        waits = {at: RECORD_BYTES * 1000 / limit - 10_000 for at, limit in limits.items()}
        found = min(waits, key=lambda at: abs(waits[at] - reply.throttle_time_ms))
        talk.lines.append(f"bound by level {found + 1} of {len(limits)}: {LEVELS[found]}")
        del limits[index]
        await (await talk.begin(alter((names, {PRODUCED: None})), 1))
    await talk.pass_time(LONGEST_MS)
    reply = await (await talk.begin(request, 9, client="app"))
    talk.lines.append(f"without any: {reply.throttle_time_ms} ms")
