"""InitProducerId with a transactional id: new users, users that go on, users of old, open transactions."""

from typing import Any

from headrace.wire.schemas.describe_transactions import DescribeTransactionsRequest
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.beside_kafka.talk import Talk
from tests.server.txn_requests import Who, add, end, init

NEWEST = 5


async def ready(talk: Talk) -> None:
    """The first question has the internal topic made, which Kafka does not wait for."""
    while True:
        reply = await (await talk.begin(ask_for(6, "any", key_type=1), 6))
        if reply.coordinators[0].error_code == 0:
            probe = await (await talk.begin(init(talk.name("probe")), NEWEST))
            if probe.error_code == 0:
                return
        await talk.pass_time(100)


async def begin(talk: Talk, name: str) -> Who:
    """A new user of an id, whose producer id is shown by name."""
    reply = await (await talk.begin(init(talk.name(name)), NEWEST))
    assert reply.error_code == 0, reply
    talk.know_producer(reply.producer_id, f"<producer of {name}>")
    return talk.name(name), reply.producer_id, reply.producer_epoch


async def settled(talk: Talk, name: str) -> None:
    """Wait until all markers of a transaction are written."""
    for _ in range(100):
        reply = await (await talk.begin(DescribeTransactionsRequest([talk.name(name)]), 0))
        if not reply.transaction_states[0].transaction_state.startswith("Prepare"):
            return
        await talk.pass_time(20)
    raise AssertionError(f"the transaction of {name} does not end")


async def script(talk: Talk) -> None:
    await ready(talk)
    await talk.topic("topic", 2)
    await refused(talk)
    await users(talk)
    await going_on(talk)
    await open_transactions(talk)


async def refused(talk: Talk) -> None:
    talk.title("Refused")
    name = talk.name("refused")
    wrong: dict[str, Any] = {
        "an empty id": init(""),
        "no time-out": init(name, timeout_ms=0),
        "a negative time-out": init(name, timeout_ms=-1),
        "too long a time-out": init(name, timeout_ms=900_001),
    }
    for label, request in wrong.items():
        for version in (0, NEWEST):
            await talk.ask(f"{label}, v{version}", request, version)
    for label, expected in {"no epoch": (5, -1), "no id": (-1, 5)}.items():
        await talk.ask(label, init(name, expected=expected), NEWEST)
        await talk.ask(f"{label}, without a transactional id", init(None, expected=expected), NEWEST)


async def users(talk: Talk) -> None:
    talk.title("New users")
    _, producer_id, _ = await begin(talk, "used")
    for version in range(NEWEST + 1):
        await talk.ask(f"v{version}", init(talk.name("used")), version)
    await talk.ask("expects what never was", init(talk.name("fresh"), expected=(producer_id, 3)), NEWEST)


async def going_on(talk: Talk) -> None:
    talk.title("Users that go on")
    who = await begin(talk, "going")
    name, producer_id, epoch = who
    await talk.ask("its own epoch", init(name, expected=(producer_id, epoch)), NEWEST)
    await talk.ask("the same again", init(name, expected=(producer_id, epoch)), NEWEST)
    await talk.ask("the next epoch", init(name, expected=(producer_id, epoch + 1)), NEWEST)
    await talk.ask("two epochs ago", init(name, expected=(producer_id, epoch)), NEWEST)
    await talk.ask("two epochs ago, v3", init(name, expected=(producer_id, epoch)), 3)
    await talk.ask("an epoch to come", init(name, expected=(producer_id, epoch + 9)), NEWEST)
    await talk.ask("another id", init(name, expected=(producer_id + 100_000, epoch + 2)), NEWEST)
    await talk.ask("somebody else comes", init(name), NEWEST)
    await talk.ask("the one before", init(name, expected=(producer_id, epoch + 2)), NEWEST)


async def open_transactions(talk: Talk) -> None:
    topic = talk.name("topic")
    for version in (4, 5):
        talk.title(f"An open transaction, whose end would be told in v{version}")
        kind = f"left{version}"
        who = await begin(talk, kind)
        await talk.ask("it adds a partition", add(who, **{topic: [0]}), 3)
        await talk.ask("another user", init(who[0]), NEWEST)
        await settled(talk, kind)
        await talk.ask("the one before adds", add(who, **{topic: [1]}), 3)
        await talk.ask("the one before ends", end(who), version)
        await talk.ask("another user, again", init(who[0]), NEWEST)
        who = await begin(talk, kind)
        await talk.ask("it adds a partition", add(who, **{topic: [0]}), 3)
        await talk.ask("it goes on after an error", init(who[0], expected=who[1:]), NEWEST)
        await settled(talk, kind)
        await talk.ask("it goes on, again", init(who[0], expected=who[1:]), NEWEST)
        await talk.ask("and again", init(who[0], expected=who[1:]), NEWEST)
        who = await begin(talk, kind)
        await talk.ask("it adds a partition", add(who, **{topic: [0]}), 3)
        await talk.ask("another user", init(who[0]), NEWEST)
        await settled(talk, kind)
        await talk.ask("the one before goes on", init(who[0], expected=who[1:]), NEWEST)
        await talk.ask("another user, again", init(who[0]), NEWEST)
        await talk.ask("the one before goes on", init(who[0], expected=who[1:]), NEWEST)
        who = await begin(talk, kind)
        await talk.ask("it adds a partition", add(who, **{topic: [0]}), 3)
        await talk.ask("it commits", end(who), version)
        await settled(talk, kind)
        await talk.ask("another user", init(who[0]), NEWEST)
