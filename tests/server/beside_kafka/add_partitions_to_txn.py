"""AddPartitionsToTxn and AddOffsetsToTxn: by clients, and by brokers that add or verify."""

from headrace.wire.schemas.describe_transactions import DescribeTransactionsRequest
from tests.server.beside_kafka import find_coordinator
from tests.server.beside_kafka.init_producer_id import begin, ready, settled
from tests.server.beside_kafka.talk import Talk
from tests.server.txn_requests import add, add_offsets, ask_about, end

CLIENTS = 3
BROKERS = (4, 5)


async def script(talk: Talk) -> None:
    await ready(talk)
    await find_coordinator.ready(talk)
    await talk.topic("topic", 4)
    await clients(talk)
    await brokers(talk)
    await offsets(talk)


async def clients(talk: Talk) -> None:
    talk.title("Clients")
    topic = talk.name("topic")
    who = await begin(talk, "client")
    name, producer_id, epoch = who
    for version in range(CLIENTS + 1):
        await talk.ask(f"unknown, v{version}", add((talk.name("x"), 1, 0), **{topic: [0]}), version)
        await talk.ask(f"fenced, v{version}", add((name, producer_id, epoch + 1), **{topic: [0]}), version)
    await talk.ask("another producer", add((name, producer_id + 100_000, epoch), **{topic: [0]}), CLIENTS)
    await talk.ask("an empty id", add(("", producer_id, epoch), **{topic: [0]}), CLIENTS)
    for label, others in {"topic": {talk.name("none"): [0]}, "partition": {topic: [0, 9]}}.items():
        request = add(who, **{topic: [0]} | others)
        await talk.ask(f"an unknown {label} too", request, CLIENTS, unordered=True)
    await talk.ask("an internal topic", add(who, __transaction_state=[0]), CLIENTS)
    await talk.ask("nothing", add(who), CLIENTS)
    await talk.ask("one", add(who, **{topic: [0]}), CLIENTS)
    await talk.ask("the same and another", add(who, **{topic: [0, 1]}), CLIENTS)
    await talk.ask("the same again", add(who, **{topic: [1, 0]}), CLIENTS)
    await talk.ask("what is open", DescribeTransactionsRequest([name]), 0, unordered=True)


async def brokers(talk: Talk) -> None:
    topic = talk.name("topic")
    for version in BROKERS:
        talk.title(f"Brokers, v{version}")
        who = await begin(talk, f"broker{version}")
        name, producer_id, epoch = who
        unknown, fenced = (talk.name("x"), 1, 0), (name, producer_id, epoch + 1)
        for verify in (True, False):
            how = "verify" if verify else "add"
            request = ask_about(unknown, verify=verify, **{topic: [0]})
            await talk.ask(f"{how}, unknown", request, version, unordered=True)
            request = ask_about(fenced, verify=verify, **{topic: [0]})
            await talk.ask(f"{how}, fenced", request, version, unordered=True)
            request = ask_about((name, producer_id + 100_000, epoch), verify=verify, **{topic: [0]})
            await talk.ask(f"{how}, another producer", request, version, unordered=True)
            request = ask_about(("", producer_id, epoch), verify=verify, **{topic: [0]})
            await talk.ask(f"{how}, an empty id", request, version, unordered=True)
        await talk.ask("verify nothing open", ask_about(who, **{topic: [0]}), version)
        await talk.ask("add", ask_about(who, verify=False, **{topic: [0]}), version)
        await talk.ask("verify both", ask_about(who, **{topic: [0, 1]}), version, unordered=True)
        await talk.ask("what is open", DescribeTransactionsRequest([name]), 0)
        await talk.ask(f"no transactions, v{version}", ask_about(), version)
        await talk.ask("it ends", end(who), 5)
        await settled(talk, f"broker{version}")
        await talk.ask("verify when it is over", ask_about(who, **{topic: [0]}), version)
        after = (name, producer_id, epoch + 1)
        await talk.ask("verify the next", ask_about(after, **{topic: [0]}), version)
        await talk.ask("what is open", DescribeTransactionsRequest([name]), 0)


async def offsets(talk: Talk) -> None:
    talk.title("Offsets")
    who = await begin(talk, "offsets")
    name, producer_id, epoch = who
    group = talk.name("group")
    for version in range(5):
        await talk.ask(f"unknown, v{version}", add_offsets((talk.name("x"), 1, 0), group), version)
        await talk.ask(f"fenced, v{version}", add_offsets((name, producer_id, epoch + 1), group), version)
    await talk.ask("an empty id", add_offsets(("", producer_id, epoch), group), 4)
    await talk.ask("no group", add_offsets(who, ""), 4)
    await talk.ask("added", add_offsets(who, group), 4)
    await talk.ask("added again", add_offsets(who, group), 4)
