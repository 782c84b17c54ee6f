"""`headrace reassign`: move replicas to other brokers and folders, with Kafka's files and Kafka's steps."""

import random
from collections.abc import Iterable
from pathlib import Path

import click

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option
from headrace.cli.output import note, print_json, print_table
from headrace.cli.reassign_plan import (
    Plan,
    clear_throttles,
    current_plan,
    plan_text,
    propose,
    read_plan,
    read_topics,
    set_throttles,
)
from headrace.clients import Admin, TopicDescription
from headrace.clients.errors import RefusedError

file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace reassign generate --topic orders --brokers 2,3,4 > plan.json",
        "headrace reassign execute plan.json --throttle 50000000",
        "headrace reassign verify plan.json",
    ),
)
def reassign() -> None:
    """Move replicas to other brokers and folders."""


@reassign.command(
    epilog=examples(
        "headrace reassign generate --topic orders --topic users --brokers 1,2,3 > plan.json",
        "headrace reassign generate --topics-file topics.json --brokers 1,2,3",
    )
)
@click.option("--topic", "names", multiple=True, metavar="NAME", help="A topic to move; may be repeated.")
@click.option(
    "--topics-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kafka's topics-to-move file.",
)
@click.option("--brokers", required=True, metavar="ID,ID…", help="Where they shall be.")
@click.option("--ignore-racks", is_flag=True, help="Spread over brokers only, whatever their racks.")
@cluster_options
@json_option
def generate(
    names: tuple[str, ...],
    topics_file: Path | None,
    brokers: str,
    ignore_racks: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Propose a plan that spreads topics over brokers: the plan on stdout, what is now on stderr."""
    wanted = [*names, *(read_topics(topics_file) if topics_file else ())]
    if not wanted:
        raise click.UsageError("name topics with --topic or --topics-file")
    ids = _broker_ids(brokers)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        known = {each.node_id: each for each in admin.describe_cluster().brokers}
        missing = sorted(ids - set(known))
        if missing:
            raise click.ClickException(f"there are no brokers {missing}: there are {sorted(known)}")
        described = admin.describe_topics(wanted)
    chosen = [known[each] for each in sorted(ids)]
    proposed = propose(described, chosen, by_rack=not ignore_racks, rng=random.Random())
    if as_json:
        print_json({"current": plan_text(current_plan(described)), "proposed": plan_text(proposed)})
        return
    note("now, to go back to: " + plan_text(current_plan(described)))
    click.echo(plan_text(proposed))


def _broker_ids(text: str) -> set[int]:
    try:
        return {int(each) for each in text.split(",")}
    except ValueError:
        raise click.BadParameter("brokers are named by number, as 1,2,3.", param_hint="'--brokers'") from None


@reassign.command(epilog=examples("headrace reassign execute plan.json --throttle 50000000"))
@file_argument
@click.option(
    "--throttle",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Bytes a second that moving replicas may take.",
)
@click.option("--additional", is_flag=True, help="Also where other reassignments are under way.")
@cluster_options
@json_option
def execute(
    file: Path,
    throttle: int | None,
    additional: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Begin what a plan says. Replicas move in the background: `verify` tells how far they are."""
    plan = read_plan(file)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        described = _described(admin, plan)
        if not additional and admin.list_reassignments():
            raise click.ClickException(
                "another reassignment is under way: wait for it (`headrace reassign verify`), or add to it "
                "with --additional"
            )
        before = {where: target for where, target in current_plan(described).items() if where in plan}
        note("now, to go back to: " + plan_text(before))
        if throttle is not None:
            set_throttles(admin, before, plan, throttle)
        failed = {
            str(where): str(error)
            for where, error in admin.reassign({where: each.replicas for where, each in plan.items()}).items()
        }
        failed |= _move_folders(admin, plan)
    if as_json:
        print_json({"started": len(plan) - len(failed), "failed": failed})
    else:
        click.echo(f"started {len(plan) - len(failed)} of {len(plan)} reassignments")
    if failed:
        raise click.ClickException("; ".join(failed.values()))


def _move_folders(admin: Admin, plan: Plan) -> dict[str, str]:
    """Ask each broker for the folders that the plan names. One that does not hold a replica yet makes it
    there.
    """
    moves: dict[int, dict[TopicPartition, str]] = {}
    for where, target in plan.items():
        for broker, path in target.moved_folders().items():
            moves.setdefault(broker, {})[where] = path
    return {
        f"{where} on broker {broker}": f"{where} on broker {broker} cannot go to {paths[where]}: "
        + ("that is none of its log.dirs" if code is ErrorCode.LOG_DIR_NOT_FOUND else code.name)
        for broker, paths in moves.items()
        for where, code in admin.move_to_log_dirs(broker, paths).items()
        if code is not ErrorCode.REPLICA_NOT_AVAILABLE
    }


@reassign.command(epilog=examples("headrace reassign verify plan.json"))
@file_argument
@click.option("--keep-throttles", is_flag=True, help="Leave throttles as they are when all is done.")
@cluster_options
@json_option
def verify(file: Path, keep_throttles: bool, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Tell how far a plan is, and take its throttles away once all of it is done."""
    plan = read_plan(file)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        described = _described(admin, plan)
        states = _states(plan, described, set(admin.list_reassignments(plan)))
        is_done = all(state == "done" for state in states.values())
        if is_done and not keep_throttles:
            brokers = [each.node_id for each in admin.describe_cluster().brokers if not each.fenced]
            clear_throttles(admin, {where.topic for where in plan}, brokers)
    if as_json:
        print_json({str(where): state for where, state in sorted(states.items())})
        return
    rows = [(where.topic, where.partition, states[where]) for where in sorted(states)]
    print_table(("TOPIC", "PARTITION", "STATE"), rows)
    if is_done and not keep_throttles:
        note("all done; throttles are taken away")


def _states(
    plan: Plan, described: Iterable[TopicDescription], moving: set[TopicPartition]
) -> dict[TopicPartition, str]:
    now = current_plan(described)
    states = {}
    for where, target in plan.items():
        if where in moving:
            states[where] = "moving"
        elif where not in now:
            states[where] = "the partition does not exist"
        elif now[where].replicas == target.replicas:
            states[where] = "done"
        else:
            states[where] = f"not moving, replicas are {now[where].replicas}"
    return states


@reassign.command(epilog=examples("headrace reassign cancel plan.json"))
@file_argument
@click.option("--keep-throttles", is_flag=True, help="Leave throttles as they are.")
@cluster_options
@json_option
def cancel(file: Path, keep_throttles: bool, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Stop what is under way of a plan: replicas that were added go, the others stay."""
    plan = read_plan(file)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        moving = admin.list_reassignments(plan)
        failed = admin.reassign(dict.fromkeys(moving)) if moving else {}
        left = {w: e for w, e in failed.items() if not _is_over(e)}
        if not keep_throttles:
            brokers = [each.node_id for each in admin.describe_cluster().brokers if not each.fenced]
            clear_throttles(admin, {where.topic for where in plan}, brokers)
    if as_json:
        print_json({"cancelled": [str(where) for where in moving if where not in left]})
    else:
        click.echo(f"cancelled {len(moving) - len(left)} reassignments")
    if left:
        raise click.ClickException("; ".join(map(str, left.values())))


def _is_over(error: Exception) -> bool:
    """Done before it could be cancelled."""
    return isinstance(error, RefusedError) and error.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@reassign.command("list", epilog=examples("headrace reassign list"))
@cluster_options
@json_option
def list_(bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """List reassignments under way."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.list_reassignments()
    if as_json:
        print_json({str(where): each._asdict() for where, each in sorted(found.items())})
    elif not found:
        note("no replicas are being moved")
    else:
        rows = [
            (w.topic, w.partition, _numbers(e.replicas), _numbers(e.adding), _numbers(e.removing))
            for w, e in sorted(found.items())
        ]
        print_table(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), rows)


def _described(admin: Admin, plan: Plan) -> list[TopicDescription]:
    return admin.describe_topics(sorted({where.topic for where in plan}))


def _numbers(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))
