"""ListTransactions and DescribeTransactions: states, filters, patterns."""

from headrace.wire.schemas.describe_transactions import DescribeTransactionsRequest
from headrace.wire.schemas.list_transactions import ListTransactionsRequest
from tests.server.beside_kafka.init_producer_id import begin, ready, settled
from tests.server.beside_kafka.talk import Talk
from tests.server.txn_requests import add, end

NEWEST = 2


async def script(talk: Talk) -> None:
    await ready(talk)
    await talk.topic("topic", 2)
    topic = talk.name("topic")
    ids = {}
    for kind in ("a.empty", "a.open", "b.committed", "b.aborted"):
        who = await begin(talk, kind)
        ids[kind] = who[1]
        if kind != "a.empty":
            await (await talk.begin(add(who, **{topic: [1, 0]}), 3))
        if kind.startswith("b"):
            await (await talk.begin(end(who, commit=kind == "b.committed"), 4))
            await settled(talk, kind)
    talk.title("Described")
    for kind in ids:
        await talk.ask(kind, DescribeTransactionsRequest([talk.name(kind)]), 0)
    names = [talk.name("none"), "", talk.name("a.empty")]
    await talk.ask("unknown, empty and known", DescribeTransactionsRequest(names), 0)
    await talk.ask("none", DescribeTransactionsRequest([]), 0)
    talk.title("Listed")
    own = list(ids.values())

    async def ask(label: str, request: ListTransactionsRequest, version: int = NEWEST) -> None:
        request.producer_id_filters = request.producer_id_filters or own
        await talk.ask(label, request, version, unordered=True)

    for version in range(NEWEST + 1):
        await ask(f"all, v{version}", ListTransactionsRequest(), version)
    await ask("one producer", ListTransactionsRequest(producer_id_filters=[ids["a.open"]]))
    for state in (
        "Empty",
        "Ongoing",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareCommit",
        "Dead",
        "empty",
        "X",
    ):
        await ask(f"state {state}", ListTransactionsRequest([state]))
    await ask("two states, one unknown", ListTransactionsRequest(["Ongoing", "Odd"]))
    for duration in (-1, 0, 3_600_000):
        await ask(f"longer than {duration}", ListTransactionsRequest(duration_filter=duration))
    prefix = talk.name("").replace(".", "[.]")
    for pattern in ("a[.].*", "a", ".*open", "", "x*"):
        request = ListTransactionsRequest(transactional_id_pattern=pattern and prefix + pattern)
        await ask(f"the pattern {pattern}", request)
    await ask("a pattern that is none", ListTransactionsRequest(transactional_id_pattern="(a"))
