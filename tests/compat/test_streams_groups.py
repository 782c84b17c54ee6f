"""Kafka Streams with `group.protocol=streams`: Kafka's own smoke test while instances and the broker are
killed, and what its tools then say of the group. `python -m tests.compat.streams_groups` is the long form.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat import brokers, prepare
from tests.compat.brokers import Broker, OutsideBroker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.dump_check import check_files
from tests.compat.prepare import UnavailableError
from tests.compat.streams_groups import schedule
from tests.compat.streams_groups.instances import program
from tests.compat.streams_groups.run import SESSION_SECONDS, Outcome, Plan, run
from tests.compat.streams_groups.schedule import END, FREEZE, KILL, KILL_NODE, Strike

GROUP = "SmokeTest"
COMMAND = "org.apache.kafka.tools.streams.StreamsGroupCommand"

# The first is started again at once, and waits for the session of the one before it; the broker dies under
# both; the second leaves in order, and what it had goes to the first and back.
SHORT = Plan(
    seconds=12,
    instances=2,
    keys=10,
    values=100,
    initial_delay_ms=0,
    strikes=(Strike(KILL, 0, 2.0), Strike(KILL_NODE, 0, 2.0), Strike(END, 1, 3.0)),
)


Tool = Callable[..., str]


class Ran(NamedTuple):
    """What is left of the short form: the broker, and what the tool said while instances were there."""

    broker: Broker
    tool: Tool
    outcome: Outcome
    described: dict[str, str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder, described = tmp_path_factory.mktemp("streams"), {}
    with started(SHORT, folder) as broker, closing(tools()) as program:
        tool = partial(streams_groups, program, broker)

        def is_calm() -> bool:
            for what in ("--state", "--members", "--offsets"):
                described[what] = tool("--describe", "--group", GROUP, what, "--verbose")
            return is_whole(described)

        def look() -> None:
            eventually(is_calm, "the group to be stable, with tasks for all of its members", 120)

        yield Ran(broker, tool, run(broker, SHORT, folder, look=look), described)


def is_whole(described: dict[str, str]) -> bool:
    """Two instances with two threads each: one that a busy machine kept from its heartbeats comes back."""
    state, members = described["--state"], described["--members"]
    rows = [line for line in members.splitlines() if re.match(rf"{GROUP}\s", line)]
    is_stable = re.search(rf"^{GROUP} +\S+ +\(\d+\) +Stable +(\d+) +\1 +4\s*$", state, re.MULTILINE)
    return bool(is_stable) and len(rows) == 4 and all(re.search(r"\sACTIVE: *\S", row) for row in rows)


def tools() -> Program:
    return Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])


def streams_groups(program: Program, broker: Broker, *arguments: str) -> str:
    """What Kafka's tool prints."""
    words = [*arguments, "--bootstrap-server", broker.bootstrap]
    done = program.ask("tool", main=COMMAND, arguments=words, stdin="")
    assert done["code"] == 0, f"{words} ended with {done}"
    return str(done["out"]) + str(done["err"])


def started(plan: Plan, folder: Path) -> Broker:
    try:
        program()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    broker = brokers.under_test(folder, plan.settings)
    if isinstance(broker, OutsideBroker):
        pytest.skip("COMPAT_BOOTSTRAP names a broker whose topics are not ours to make")
    broker.start()
    return broker


@pytest.mark.java
@pytest.mark.timeout(600)
def test_the_smoke_test_passes_while_instances_and_broker_are_killed(ran: Ran) -> None:
    assert not ran.outcome.violations, str(ran.outcome)
    assert SHORT.strikes is not None
    assert set(ran.outcome.strikes) == {each.kind for each in SHORT.strikes}
    assert ran.outcome.verdict.startswith("GROUP "), ran.outcome.verdict
    assert re.findall(r"at (instance\d:\d)", ran.outcome.verdict), "instances have told their endpoints"


@pytest.mark.java
@pytest.mark.timeout(600)
def test_kafkas_tool_describes_the_group(ran: Ran) -> None:
    assert is_whole(ran.described), ran.described
    offsets = ran.described["--offsets"]
    assert set(re.findall(rf"^{GROUP} +data +(\d)\s", offsets, re.MULTILINE)) == {"0", "1", "2"}, offsets


@pytest.mark.java
@pytest.mark.timeout(600)
def test_kafkas_tool_moves_and_deletes_the_group(ran: Ran) -> None:
    """Which is empty by now: every instance left in order."""
    tool, group = ran.tool, ("--group", GROUP)
    assert GROUP in tool("--list").split()
    assert re.search(rf"{GROUP} +Empty", tool("--list", "--state"))
    said = tool("--reset-offsets", *group, "--input-topic", "data", "--to-earliest", "--execute")
    found = re.findall(rf"{GROUP} +data +(\d) +(\d+)", said)
    assert sorted(found) == [("0", "0"), ("1", "0"), ("2", "0")], said
    said = tool("--delete-offsets", *group, "--input-topic", "data")
    assert sorted(re.findall(r"data +(\d) +Successful", said)) == ["0", "1", "2"], said
    assert internal_topics(ran.broker)
    tool("--delete", *group, "--delete-all-internal-topics")
    assert GROUP not in tool("--list").split()
    eventually(lambda: not internal_topics(ran.broker), "the internal topics to be gone")


def internal_topics(broker: Broker) -> list[str]:
    topics = Confluent(broker.bootstrap).topics()
    return [each for each in topics if re.fullmatch(rf"{GROUP}-.+-(changelog|repartition)", each)]


@pytest.mark.java
@pytest.mark.timeout(600)
def test_every_file_is_read_by_kafka(ran: Ran) -> None:
    """Last: it stops the broker."""
    check_files(ran.broker)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_the_smoke_test_passes_under_long_fire(guarantee: str, tmp_path: Path) -> None:
    plan = Plan(guarantee, seed=5, seconds=90)
    with started(plan, tmp_path) as broker:
        outcome = run(broker, plan, tmp_path)
        broker.stop()
    assert not outcome.violations, str(outcome)


def test_a_seed_decides_everything() -> None:
    def drawn(seed: int) -> list[Strike]:
        plan = schedule.strikes(seed, instances=3, nodes=1, session_seconds=SESSION_SECONDS)
        return list(islice(plan, 100))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert {each.kind for each in drawn(1)} == {KILL, END, FREEZE, KILL_NODE}
