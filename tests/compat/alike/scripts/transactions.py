"""Transactions: every request of a transactional producer in every state of its id, right and wrong."""

import random
from itertools import product
from typing import Any

from headrace.wire.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.schemas.describe_transactions import DescribeTransactionsRequest
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest
from headrace.wire.schemas.list_transactions import ListTransactionsRequest
from headrace.wire.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.compat.alike.scripts.states import consumer, groups_ready, stable, transactions_ready
from tests.compat.alike.session import Session, versions
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.txn_requests import Who, add, add_offsets, ask_about, commit_offsets, end, init

STATES = ("new", "added", "written", "offsets", "committed", "aborted", "old committed", "old aborted")


async def script(session: Session) -> None:
    await groups_ready(session)
    await transactions_ready(session)
    await session.topic("topic", 4, segment_ms=str(10**13))
    await beginning(session)
    for state in STATES:
        await in_state(session, state)
    await ends(session)
    await offsets(session)
    await markers(session)
    await listing(session)
    nobody = write(session, (session.name("nobody"), -1, 0), 0, partition=3)
    await session.ask("a batch of nobody's transaction", nobody)


async def begun(session: Session, name: str, state: str = "new") -> Who:
    """A new user of an id, in a state."""
    topic, group = session.name("topic"), session.name(f"group of {name}")
    reply = await session.get(init(session.name(name)))
    assert reply.error_code == 0, reply
    session.know(("producer", reply.producer_id), f"producer of {name}")
    who = (session.name(name), reply.producer_id, reply.producer_epoch)
    if state != "new":
        await session.get(add(who, **{topic: [0, 1]}), 3)
    if state == "written":
        await session.get(write(session, who, 0), 11)
    if state == "offsets":
        await session.get(add_offsets(who, group))
    if state.endswith(("committed", "aborted")):
        version = 4 if state.startswith("old") else 5
        await session.get(end(who, commit=state.endswith("committed")), version)
        await settled(session, who)
    return who


async def settled(session: Session, who: Who) -> None:
    """Wait until all markers of a transaction are written."""
    await session.until(
        DescribeTransactionsRequest([who[0]]),
        lambda reply: not reply.transaction_states[0].transaction_state.startswith("Prepare"),
    )


def write(session: Session, who: Who, sequence: int, *, partition: int = 0, **options: Any) -> Any:
    """A transactional batch of two records."""
    usual: dict[str, Any] = {"producer_id": who[1], "producer_epoch": who[2], "base_sequence": sequence}
    records = batch(2, **{"transactional": True} | usual | options)
    topic = session.name("topic")
    return produce(topic, records, acks=-1, transactional_id=who[0], partitions=(partition,))


def wrong_ways(session: Session, who: Who) -> dict[str, Who]:
    """An identity with one part wrong, and at last the right one."""
    name, producer_id, epoch = who
    return {
        "nobody": (session.name("nobody"), producer_id, epoch),
        "no name": ("", producer_id, epoch),
        "another producer": (name, producer_id + 100_000, epoch),
        "no producer": (name, -1, epoch),
        "a future epoch": (name, producer_id, epoch + 1),
        "a far epoch": (name, producer_id, epoch + 7),
        "a past epoch": (name, producer_id, epoch - 1),
        "right": who,
    }


async def beginning(session: Session) -> None:
    name = session.name("init")
    for version in versions("InitProducerId"):
        for label, request in {
            "no id": init(None),
            "an empty id": init(""),
            "no time": init(name, timeout_ms=0),
            "negative time": init(name, timeout_ms=-1),
            "too much time": init(name, timeout_ms=900_001),
            "the most time": init(name, timeout_ms=900_000),
            "again": init(name),
            "no id, no time": init(None, timeout_ms=-1),
        }.items():
            await session.ask(label, request, version)
    for version, state in product((3, 4, 5), ("new", "written", "committed", "old aborted")):
        who = await begun(session, f"init {state} {version}", state)
        _, producer_id, epoch = who
        ways = {
            "only an id": (producer_id, -1),
            "only an epoch": (-1, epoch),
            "another id": (producer_id + 100_000, epoch),
            "a future epoch": (producer_id, epoch + 1),
            "a far epoch": (producer_id, epoch + 9),
            "a past epoch": (producer_id, epoch - 1),
            "its own": (producer_id, epoch),
            "its own again": (producer_id, epoch),
            "what it was": (producer_id, epoch),
        }
        for label, expected in ways.items():
            request = InitProducerIdRequest(who[0], 60_000, *expected)
            await session.ask(f"{state}, goes on: {label}", request, version)
            await settled(session, who)
        await session.ask(f"{state}, described", DescribeTransactionsRequest([who[0]]))
        request = InitProducerIdRequest(session.name("init-none"), 60_000, producer_id, epoch)
        await session.ask(f"{state}, an id that is not known", request, version)
        request = InitProducerIdRequest(None, 60_000, producer_id, epoch)
        await session.ask(f"{state}, no name", request, version)


async def in_state(session: Session, state: str) -> None:
    """Wrong requests to an id in one state, and then right ones in each version."""
    topic, group = session.name("topic"), session.name(f"group in {state}")
    who = await begun(session, f"id {state}", state)
    for label, as_whom in wrong_ways(session, who).items():
        if label == "right":
            break
        said = f"{state}: {label}"
        await session.every(said, lambda version, w=as_whom: add(w, **{topic: [2]}), range(4))
        for verify in (True, False):
            await session.every(
                f"{said}, {verify}",
                lambda version, w=as_whom, v=verify: ask_about(w, verify=v, **{topic: [0, 2]}),
                (4, 5),
            )
        await session.every(said, lambda version, w=as_whom: add_offsets(w, group))
        await session.every(said, lambda version, w=as_whom: commit_offsets(w, group, topic, {0: 1}))
        for outcome, version in product((True, False), versions("EndTxn")):
            await session.ask(f"{said}, {outcome}", end(as_whom, commit=outcome), version)
            await settled(session, who)
        for version in (3, 7, 10, 11, 12) if label != "no producer" else ():
            await session.ask(said, write(session, as_whom, 0, partition=3), version)
    await session.ask(f"{state}: described", DescribeTransactionsRequest([who[0]]))
    for number, version in enumerate((3, 7, 11, 12)):
        who = await begun(session, f"writes {state} {version}", state)
        for sequence in (0, 2, 0, 9, -1):
            said = f"{state}: writes {sequence}"
            await session.ask(said, write(session, who, sequence), version)
        await session.ask(f"{state}: writes elsewhere", write(session, who, 0, partition=number), version)
        if state != "new":  # there Kafka remembers the sequence that it refused
            plain = write(session, who, 4, transactional=False)
            await session.ask(f"{state}: writes plainly", plain, version)
            plain.transactional_id = None
            await session.ask(f"{state}: writes plainly without its name", plain, version)
        await session.ask(f"{state}: described", DescribeTransactionsRequest([who[0]]))
        partitions = DescribeProducersRequest([TopicRequest(session.name("topic"), [0, 1, 2, 3])])
        reply = await session.get(partitions)
        for each in reply.topics[0].partitions:
            each.active_producers = [one for one in each.active_producers if one.producer_id == who[1]]
        session.write(f"{state}: producers after v{version}", session.names.plain(reply, 0))
        await session.get(end(who, commit=False), 4)
        await settled(session, who)


async def ends(session: Session) -> None:
    """Each outcome in each version after each state, then again, then the other one."""
    for state, outcome, version in product(STATES, (True, False), versions("EndTxn")):
        who = await begun(session, f"end {state} {outcome} {version}", state)
        for label, (commit, later) in {
            "ends": (outcome, 0),
            "again": (outcome, 0),
            "otherwise": (not outcome, 0),
            "the next": (outcome, 1),
            "the next otherwise": (not outcome, 1),
        }.items():
            request = end((who[0], who[1], who[2] + later), commit=commit)
            await session.ask(f"{state}, {outcome}: {label}", request, version)
            await settled(session, who)
        await session.ask(f"{state}, {outcome}: described", DescribeTransactionsRequest([who[0]]))


async def offsets(session: Session) -> None:
    topic = session.name("topic")
    for version in versions("TxnOffsetCommit"):
        members = [
            await stable(session, f"txn-stable{version}"),
            await stable(session, f"txn-static{version}", instance="i"),
            await consumer(session, f"txn-consumer{version}"),
        ]
        who = await begun(session, f"offsets {version}", "added")
        for group in members:
            if version < 5:
                await session.get(add_offsets(who, group.id))
            cases: dict[str, dict[str, Any]] = {
                "nobody in particular": {},
                "nobody": {"member": "nobody", "generation": group.generation},
                "a generation": {"generation": group.generation},
                "only a name": {"member": group.member},
                "an old generation": {"member": group.member, "generation": group.generation - 1},
                "a future one": {"member": group.member, "generation": group.generation + 1},
                "another instance": {"member": group.member, "generation": group.generation, "instance": "j"},
                "itself": {
                    "member": group.member,
                    "generation": group.generation,
                    "instance": group.instance,
                },
            }
            for label, fields in cases.items():
                request = commit_offsets(who, group.id, topic, {0: 5, 9: 1}, **fields)
                await session.ask(f"{group.state}: {label}", request, version)
        for label, request in {
            "no group": commit_offsets(who, "", topic, {0: 1}),
            "an unknown topic": commit_offsets(who, members[0].id, session.name("none"), {0: 1}),
            "too many words": commit_offsets(who, members[0].id, topic, {0: 1}, metadata="w" * 4097),
            "nothing": commit_offsets(who, members[0].id, topic, {}),
            "negative": commit_offsets(who, members[0].id, topic, {0: -1}),
        }.items():
            await session.ask(label, request, version)
        await session.ask("described", DescribeTransactionsRequest([who[0]]))
        await session.get(end(who))
        await settled(session, who)


async def markers(session: Session) -> None:
    topic = session.name("topic")
    for version in versions("WriteTxnMarkers"):
        who = await begun(session, f"markers {version}", "written")
        _, producer_id, epoch = who
        session.know(("producer", producer_id + 100_000), "a stranger")

        async def mark(
            label: str, *rows: tuple[int, int, bool, list[int], int], version: int = version
        ) -> None:
            marks = [
                WritableTxnMarker(who, epoch, commit, [WritableTxnMarkerTopic(topic, partitions)], at, 2)
                for who, epoch, commit, partitions, at in rows
            ]
            await session.ask(label, WriteTxnMarkersRequest(marks), version)

        await mark("none")
        await mark("a future coordinator", (producer_id, epoch, True, [1], 9))
        await mark("a past coordinator", (producer_id, epoch, True, [1], 0))
        await mark("an unknown partition", (producer_id, epoch, False, [0, 17], 0))
        await mark("a past epoch", (producer_id, epoch - 1, False, [0], 9))
        await mark("again", (producer_id, epoch, False, [0], 9), (producer_id + 100_000, 0, True, [1, 2], 0))
        request = WriteTxnMarkersRequest(
            [
                WritableTxnMarker(
                    producer_id + 100_000, 0, True, [WritableTxnMarkerTopic(session.name("none"), [0])], 0
                )
            ]
        )
        await session.ask("an unknown topic", request, version)


async def listing(session: Session) -> None:
    own = {}
    for state in STATES:
        own[state] = (await begun(session, f"list.{state}", state))[1]
    everyone = [session.name(f"list.{state}") for state in STATES]
    await session.ask("all", DescribeTransactionsRequest([*everyone, "", session.name("none"), everyone[0]]))
    await session.ask("none", DescribeTransactionsRequest([]))

    async def ask(label: str, version: int, **fields: Any) -> None:
        fields.setdefault("producer_id_filters", list(own.values()))
        await session.ask(label, ListTransactionsRequest(**fields), version)

    for version in versions("ListTransactions"):
        await ask("all", version)
        for state in (
            "Empty",
            "Ongoing",
            "ongoing",
            "CompleteCommit",
            "CompleteAbort",
            "PrepareAbort",
            "Dead",
            "X",
            "",
        ):
            await ask(f"state {state}", version, state_filters=[state, "Odd"])
        await ask("a stranger", version, producer_id_filters=[1 << 40])
        await ask("one", version, producer_id_filters=[own["written"]])
        for duration in (-2, 0, 1 << 40) if version >= 1 else ():
            await ask(f"duration {duration}", version, duration_filter=duration)
        for pattern in ("", ".*list.*", "zzz", ".*list\\.new", "[", ".*(ed|ew)") if version >= 2 else ():
            await ask(f"pattern {pattern}", version, transactional_id_pattern=pattern)


async def walk(session: Session, rng: random.Random) -> None:
    """One id that is used by random requests, mostly with the producer's own epochs."""
    await groups_ready(session)
    await transactions_ready(session)
    await session.topic("topic", 4, segment_ms=str(10**13))
    topic, name = session.name("topic"), session.name("id")
    who = await begun(session, "id")
    sequences = dict.fromkeys(range(4), 0)
    for number in range(100):
        _, producer_id, epoch = who
        said = (name, producer_id, max(epoch + rng.choice((0, 0, 0, 0, 0, 1, -1)), 0))
        kind = rng.choice(
            ("init", "add", "add", "verify", "write", "write", "write", "end", "end", "offsets")
        )
        partition = rng.choice((0, 1, 2))
        if kind == "init":
            expected = rng.choice(((-1, -1), (producer_id, epoch), (producer_id, max(epoch - 1, 0))))
            reply = await session.ask(f"{number}", init(name, expected=expected), rng.choice((4, 5)))
        elif kind == "add":
            reply = await session.ask(f"{number}", add(said, **{topic: [partition]}), rng.choice(range(4)))
        elif kind == "verify":
            request = ask_about(said, verify=rng.random() < 0.6, **{topic: [partition, 3]})
            reply = await session.ask(f"{number}", request, rng.choice((4, 5)))
        elif kind == "write":
            sequence = rng.choice((sequences[partition],) * 5 + (0, sequences[partition] + 2))
            request = write(session, said, sequence, partition=partition)
            reply = await session.ask(f"{number}", request, rng.choice((9, 11, 12)))
            if reply and not reply.responses[0].partition_responses[0].error_code:
                sequences[partition] = sequence + 2
        elif kind == "end":
            reply = await session.ask(
                f"{number}", end(said, commit=rng.random() < 0.5), rng.choice((3, 4, 5))
            )
        else:
            group = session.name("group")
            request = commit_offsets(said, group, topic, {partition: number})
            reply = await session.ask(f"{number}", request, rng.choice((3, 4, 5)))
        await settled(session, who)
        if reply and getattr(reply, "producer_id", -1) >= 0:
            if (reply.producer_id, reply.producer_epoch) != who[1:]:
                sequences = dict.fromkeys(range(4), 0)
            who = (name, reply.producer_id, reply.producer_epoch)
        if number % 10 == 0:
            await session.ask(f"{number} described", DescribeTransactionsRequest([name]))
