"""`headrace txn`: see transactions, end one, and find those that nobody will end.

A transaction hangs where a partition has it open and no coordinator knows of it: readers of committed records
wait there for ever. Clients and brokers that verify (KIP-890) cannot make one; older ones could.
`find-hanging` compares what the partitions' leaders have open with what the coordinators know, and `abort`
with a partition and the offset where the transaction starts writes the marker that is missing.
"""

import time
from collections.abc import Iterable
from typing import Final

import click

from headrace.base.ids import TopicPartition
from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import choices_option, examples, json_option
from headrace.cli.output import note, print_facts, print_json, print_json_rows, print_table
from headrace.clients import ActiveProducer, Admin, TransactionDescription

OLDER_THAN_MS: Final = 15 * 60 * 1000
"""Nobody may have a transaction open for longer, unless `transaction.max.timeout.ms` was raised."""

# Kafka's TransactionState, as coordinators name it.
_STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"),
)

HANGING: Final = ("topic", "partition", "producer", "epoch", "start", "written", "minutes")


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace txn list --state Ongoing",
        "headrace txn describe billing-1",
        "headrace txn find-hanging",
        "headrace txn abort --topic orders --partition 3 --start-offset 1200",
    ),
)
def txn() -> None:
    """See transactions, end one, and find those that nobody will end."""


@txn.command(
    "list",
    epilog=examples(
        "headrace txn list",
        "headrace txn list --state Ongoing --longer-than-ms 60000",
        "headrace txn list --pattern 'billing-.*' --json",
    ),
)
@choices_option("--state", _STATES, "As Ongoing; may be repeated.")
@click.option("--producer-id", "producer_ids", multiple=True, type=int, metavar="ID", help="May be repeated.")
@click.option("--longer-than-ms", type=int, default=-1, metavar="MS", help="Only those that run for longer.")
@click.option("--pattern", metavar="REGEX", help="Only ids that it matches from end to end.")
@cluster_options
@json_option
def list_(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_ms: int,
    pattern: str | None,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """List transactional ids and what they are doing."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.list_transactions(
            states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        )
    rows = [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in found]
    if as_json:
        print_json_rows(("transactional_id", "coordinator", "producer", "state"), rows)
    elif rows:
        columns = ("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER", "STATE")
        print_table(columns, rows, optional=("COORDINATOR", "PRODUCER"))
    else:
        is_filtered = states or producer_ids or longer_than_ms >= 0 or pattern is not None
        nothing = "no transactional id is like that" if is_filtered else "there are no transactional ids"
        note(f"{nothing}: a transactional producer makes its own")


@txn.command(epilog=examples("headrace txn describe billing-1", "headrace txn describe billing-1 --json"))
@click.argument("names", nargs=-1, required=True, metavar="ID…")
@cluster_options
@json_option
def describe(names: tuple[str, ...], bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Describe transactional ids: producer, state, and the partitions of what is open."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.describe_transactions(*names)
    if as_json:
        print_json([_facts(found[name]) for name in names if name in found])
    else:
        for name in names:
            if name in found:
                print_facts([(key, _shown(value)) for key, value in _facts(found[name]).items()])
    missing = [name for name in names if name not in found]
    if missing:
        raise click.ClickException(f"no coordinator knows {', '.join(missing)}")


def _facts(found: TransactionDescription) -> dict[str, object]:
    is_open = bool(found.partitions)
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "open_for_ms": int(time.time() * 1000) - found.start_ms if is_open else None,
        "partitions": [f"{topic}-{index}" for topic, index in found.partitions],
    }


def _shown(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


@txn.command(
    epilog=examples(
        "headrace txn abort billing-1",
        "headrace txn abort --topic orders --partition 3 --start-offset 1200",
    )
)
@click.argument("name", required=False, metavar="[ID]")
@click.option("--topic", metavar="TOPIC", help="Where a transaction hangs.")
@click.option("--partition", type=click.IntRange(0), metavar="N")
@click.option("--start-offset", type=click.IntRange(0), metavar="OFFSET", help="As find-hanging shows it.")
@cluster_options
@json_option
def abort(
    name: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Abort what a transactional id has open, and shut its producer out; or what hangs in a partition."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        if name is not None and topic is None:
            # Fencing an id that nobody uses would make it.
            if name not in admin.describe_transactions(name):
                raise click.ClickException(f"no coordinator knows {name}: see `headrace txn list`")
            admin.fence_producer(name)
            result: dict[str, object] = {"transactional_id": name, "aborted": True}
            text = f"the transactions of {name} are aborted, its producer is fenced"
        elif name is None and topic is not None and partition is not None and start_offset is not None:
            hanging = _open_at(admin, TopicPartition(topic, partition), start_offset)
            admin.abort_hanging(hanging)
            result = {
                "topic": topic,
                "partition": partition,
                "producer": hanging.producer_id,
                "aborted": True,
            }
            text = f"the transaction of producer {hanging.producer_id} in {topic}-{partition} is aborted"
        else:
            raise click.UsageError("give a transactional id, or all of --topic, --partition, --start-offset")
    if as_json:
        print_json(result)
    else:
        note(text)


def _open_at(admin: Admin, where: TopicPartition, start_offset: int) -> ActiveProducer:
    found = _open_in(admin, [where])
    for producer in found:
        if producer.transaction_start_offset == start_offset:
            return producer
    known = ", ".join(str(each.transaction_start_offset) for each in found) or "none"
    raise click.ClickException(f"no transaction in {where} starts at {start_offset}; those open: {known}")


@txn.command("find-hanging", epilog=examples("headrace txn find-hanging", "headrace txn find-hanging --json"))
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only here; may be repeated.")
@click.option(
    "--older-than-ms",
    type=click.IntRange(0),
    default=OLDER_THAN_MS,
    show_default=True,
    metavar="MS",
    help="Leave out where something was written since: `transaction.max.timeout.ms` at least.",
)
@cluster_options
@json_option
def find_hanging(
    topics: tuple[str, ...], older_than_ms: int, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """Find transactions that a partition has open and no coordinator will end."""
    now_ms = int(time.time() * 1000)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        names = topics or [each.name for each in admin.list_topics()]
        partitions = [
            TopicPartition(each.name, partition.number)
            for each in admin.describe_topics(names)
            for partition in each.partitions
        ]
        old = [
            each for each in _open_in(admin, partitions) if now_ms - each.last_timestamp_ms >= older_than_ms
        ]
        found = _unknown(admin, old)
    rows = [
        (
            *each.partition,
            each.producer_id,
            each.producer_epoch,
            each.transaction_start_offset,
            each.last_timestamp_ms,
            (now_ms - each.last_timestamp_ms) // 60_000,
        )
        for each in found
    ]
    if as_json:
        print_json_rows(HANGING, rows)
    elif rows:
        print_table([each.upper() for each in HANGING], rows)
    else:
        note("no transaction hangs")


def _open_in(admin: Admin, partitions: Iterable[TopicPartition]) -> list[ActiveProducer]:
    return [each for each in admin.describe_producers(*partitions) if each.transaction_start_offset >= 0]


def _unknown(admin: Admin, candidates: list[ActiveProducer]) -> list[ActiveProducer]:
    """Those that no coordinator has among the partitions of their producer's transaction."""
    if not candidates:
        return []
    listed = admin.list_transactions(producer_ids={each.producer_id for each in candidates})
    described = admin.describe_transactions(*(each.transactional_id for each in listed)) if listed else {}
    known = {(each.producer_id, partition) for each in described.values() for partition in each.partitions}
    return [each for each in candidates if (each.producer_id, each.partition) not in known]
