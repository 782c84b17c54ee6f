"""EndTxn: what may be ended, what is ended again, and who its producer is then."""

from tests.server.beside_kafka.init_producer_id import begin, ready, settled
from tests.server.beside_kafka.talk import Talk
from tests.server.txn_requests import Who, add, end

OLD, NEW = 4, 5


async def script(talk: Talk) -> None:
    await ready(talk)
    await talk.topic("topic", 2)
    await refused(talk)
    await in_its_epoch(talk)
    await with_bump(talk)
    await nothing_added(talk)


async def refused(talk: Talk) -> None:
    talk.title("Refused")
    name, producer_id, epoch = await begin(talk, "refused")
    for version in range(NEW + 1):
        await talk.ask(f"unknown, v{version}", end((talk.name("x"), 1, 0)), version)
        await talk.ask(f"fenced, v{version}", end((name, producer_id, epoch + 1)), version)
        await talk.ask(f"another producer, v{version}", end((name, producer_id + 100_000, epoch)), version)
    for version in (OLD, NEW):
        await talk.ask(f"an empty id, v{version}", end(("", producer_id, epoch)), version)
        await talk.ask(f"nothing to commit, v{version}", end((name, producer_id, epoch)), version)
    await talk.ask("nothing to abort", end((name, producer_id, epoch), commit=False), OLD)


async def both(talk: Talk, label: str, who: Who, version: int) -> None:
    for commit in (True, False):
        await talk.ask(f"{label}, {'commit' if commit else 'abort'}", end(who, commit=commit), version)


async def in_its_epoch(talk: Talk) -> None:
    for commit in (True, False):
        talk.title(f"In its epoch, {'committed' if commit else 'aborted'}")
        kind = f"old{commit}"
        who = await begin(talk, kind)
        name, producer_id, epoch = who
        await talk.ask("add", add(who, **{talk.name("topic"): [0]}), 3)
        await talk.ask("an older epoch", end((name, producer_id, epoch - 1), commit=commit), OLD)
        await talk.ask("end", end(who, commit=commit), OLD)
        await settled(talk, kind)
        await both(talk, "again", who, OLD)
        await talk.ask("add to the next", add(who, **{talk.name("topic"): [1]}), 3)
        await talk.ask("end by the new rules", end(who, commit=commit), NEW)
        await settled(talk, kind)
        await both(talk, "by the old rules", who, OLD)


async def with_bump(talk: Talk) -> None:
    for commit in (True, False):
        talk.title(f"With a bump, {'committed' if commit else 'aborted'}")
        kind = f"new{commit}"
        who = await begin(talk, kind)
        name, producer_id, epoch = who
        await talk.ask("add", add(who, **{talk.name("topic"): [0]}), 3)
        await talk.ask("end", end(who, commit=commit), NEW)
        await settled(talk, kind)
        await talk.ask("again", end(who, commit=commit), NEW)
        await talk.ask("again, the other way", end(who, commit=not commit), NEW)
        await talk.ask("an older epoch", end((name, producer_id, epoch - 1), commit=commit), NEW)
        await talk.ask("an epoch to come", end((name, producer_id, epoch + 2), commit=commit), NEW)
        await talk.ask("the next, nothing to commit", end((name, producer_id, epoch + 1)), NEW)
        await talk.ask("the next aborts", end((name, producer_id, epoch + 1), commit=False), NEW)
        await settled(talk, kind)
        await talk.ask("the first again", end(who, commit=commit), NEW)
        await talk.ask("the next aborts again", end((name, producer_id, epoch + 1), commit=False), NEW)


async def nothing_added(talk: Talk) -> None:
    talk.title("Nothing added")
    name, producer_id, epoch = await begin(talk, "empty")
    for turn in range(3):
        await talk.ask(f"abort {turn}", end((name, producer_id, epoch + turn), commit=False), NEW)
        await settled(talk, "empty")
    await talk.ask("by the old rules", end((name, producer_id, epoch + 3), commit=False), OLD)
