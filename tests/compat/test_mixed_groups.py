"""The short form of mixed_groups: fewer members for half a minute, with the clients of PyPI and with all; and
the parts that judge it, which must be able to find fault.
"""

from pathlib import Path

import pytest

from tests.compat import brokers, prepare
from tests.compat.brokers import OutsideBroker
from tests.compat.mixed_groups import schedule
from tests.compat.mixed_groups.checker import check_group, stories_of
from tests.compat.mixed_groups.coordinator_log import Commit, History
from tests.compat.mixed_groups.lines import Event, read_line
from tests.compat.mixed_groups.roster import BROKER_SETTINGS, company
from tests.compat.mixed_groups.run import run
from tests.compat.mixed_groups.spans import Spans

OUTSIDE = frozenset({"java", "golang", "nodejs"})


def _live(folder: Path, *, members: int, without: frozenset[str], seconds: float, seed: int) -> None:
    with brokers.under_test(folder, BROKER_SETTINGS) as broker:
        if isinstance(broker, OutsideBroker):
            pytest.skip("COMPAT_BOOTSTRAP names a broker whose groups are not ours to read")
        broker.start()
        seats = company(members, without=without)
        outcome = run(broker, seats, folder, seconds=seconds, seed=seed, records_per_second=200)
        broker.stop()
    assert not outcome.violations, str(outcome)


@pytest.mark.slow  # those of all kinds are in CI
@pytest.mark.timeout(900)
def test_members_from_pypi_share_groups_while_they_come_and_go(tmp_path: Path) -> None:
    _live(tmp_path, members=11, without=OUTSIDE, seconds=25, seed=4)


@pytest.mark.java
@pytest.mark.golang
@pytest.mark.nodejs
@pytest.mark.timeout(900)
def test_members_of_all_kinds_share_groups_while_they_come_and_go(tmp_path: Path) -> None:
    try:
        for build in (prepare.java_program, prepare.go_program, prepare.node_program):
            build()  # before time runs
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    _live(tmp_path, members=15, without=frozenset(), seconds=25, seed=6)


def test_a_seed_decides_everything() -> None:
    seats = company(20)
    plan = schedule.plan(seats, seconds=180, seed=7)
    assert plan == schedule.plan(seats, seconds=180, seed=7)
    assert plan != schedule.plan(seats, seconds=180, seed=8)
    assert {step.action for step in plan} == {"start", "leave", "crash", "freeze", "thaw"}
    assert len({seat.name for seat in seats}) == 20


def test_spans() -> None:
    spans = Spans()
    for first, end in [(10, 20), (30, 40), (0, 5), (18, 32), (50, 60), (5, 10)]:
        spans.add(0, first, end)
    assert spans.missing(0, 70) == [(40, 50), (60, 70)]
    assert spans.missing(0, 40) == []
    assert spans.missing(1, 1) == [(0, 1)]


def _told(client: str, at: int, kind: str, **more: object) -> Event:
    return Event(at, client, kind, **more)  # type: ignore[arg-type]


def _faults(events: list[Event], history: History, end: int) -> list[str]:
    return check_group(stories_of(events), history, [end])


def _one_owner() -> tuple[list[Event], History]:
    """A run of one member without fault."""
    history = History()
    history.name_member("id-a", "a")
    history.take_step(10, "id-a", {0})
    history.commits.append(Commit(16, 0, 5))
    events = [
        _told("a", 11, "assigned", partitions=(0,)),
        _told("a", 15, "records", spans=((0, 0, 5),)),
        _told("a", 17, "committed", began=15, offsets=((0, 5),)),
    ]
    return events, history


def test_the_checker_finds_nothing_where_nothing_is_wrong() -> None:
    events, history = _one_owner()
    assert _faults(events, history, 5) == []


def test_the_checker_finds_what_was_not_delivered_and_what_was_committed_too_early() -> None:
    events, history = _one_owner()
    history.commits.append(Commit(18, 0, 7))
    found = _faults(events, history, 8)
    assert any("nobody was given 5..8" in fault for fault in found)
    assert any("before [(5, 7)] was delivered" in fault for fault in found)


def test_the_checker_finds_commits_that_go_back_or_are_not_in_the_log() -> None:
    events, history = _one_owner()
    history.commits.append(Commit(18, 0, 3))
    events.append(_told("a", 30, "committed", began=29, offsets=((0, 5),)))
    found = _faults(events, history, 5)
    assert any("committed back from 5 to 3" in fault for fault in found)
    assert any("is not in the log" in fault for fault in found)


def test_the_checker_finds_two_owners() -> None:
    events, history = _one_owner()
    history.name_member("id-b", "b")
    history.take_step(20, "id-b", {0})
    assert any("while a held it" in fault for fault in _faults(events, history, 5))

    events, history = _one_owner()
    history.take_step(20, "id-a", set())
    history.take_step(20, "id-b", {0})
    assert any("though another was given it at 20" in fault for fault in _faults(events, history, 5))
    events.append(_told("a", 19, "revoked", partitions=(0,)))
    assert _faults(events, history, 5) == []


def test_a_member_that_was_put_out_may_learn_it_late_but_not_commit() -> None:
    events, history = _one_owner()
    history.take_step(20, "id-a", None)
    history.name_member("id-b", "b")
    history.take_step(21, "id-b", {0})
    history.commits.append(Commit(50, 0, 5))
    late = [
        _told("a", 40, "continued"),
        _told("a", 51, "committed", began=49, offsets=((0, 5),)),
        _told("a", 60, "lost", partitions=(0,)),
    ]
    found = _faults(events + late, history, 5)
    assert len(found) == 1
    assert "though it did not own the partition" in found[0]
    never = _faults(events, history, 5)
    assert any("never learnt" in fault for fault in never)


def test_who_is_asked_to_let_go_and_put_out_before_it_did_may_learn_it_late() -> None:
    events, history = _one_owner()
    history.take_step(20, "id-a", set())  # a cooperative group's first step
    events.append(_told("a", 60, "lost", partitions=(0,)))
    history.name_member("id-b", "b")
    history.take_step(30, "id-b", {0})
    assert any("though another was given it at 30" in fault for fault in _faults(events, history, 5))

    _, history = _one_owner()
    history.take_step(20, "id-a", set())
    history.take_step(29, "id-a", None)
    history.take_step(30, "id-b", {0})
    assert _faults(events, history, 5) == []


def test_the_lines_of_apache_kafkas_own_program() -> None:
    line = (
        '{"timestamp":5,"name":"records_consumed","count":3,'
        '"partitions":[{"topic":"t","partition":1,"count":3,"minOffset":7,"maxOffset":9}]}'
    )
    assert read_line("v", line) == [Event(5, "v", "records", spans=((1, 7, 10),))]
    gap = line.replace('"maxOffset":9', '"maxOffset":10')
    assert read_line("v", gap)[0].kind == "garbled"
    assert read_line("v", "Exception in thread main") == []
