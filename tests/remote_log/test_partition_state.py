"""The state machine of a tiered partition, as tables: what leads to which phase, and what may start in it."""

from collections.abc import Callable

import pytest

from headrace.remote_log.core.partition_state import (
    TASKS,
    ExpirationInput,
    PartitionRole,
    Phase,
    RemotePartitionState,
    RetryBackoff,
    TaskKind,
)

BACKOFF = RetryBackoff(500, 30_000)

Event = Callable[[RemotePartitionState], None]


def fails(kind: TaskKind, now_s: float = 0.0) -> Event:
    return lambda state: state.failed(kind, now_s, BACKOFF, jitter=1.0)


def refused(state: RemotePartitionState) -> None:
    state.refuse_copies()


def paused(state: RemotePartitionState) -> None:
    state.pause_copies(30.0)


def taken_over(state: RemotePartitionState) -> None:
    state.taken_over()


def succeeds(state: RemotePartitionState) -> None:
    state.succeeded()


TAKE_OVER_FAILS = fails(TaskKind.TAKE_OVER)
COPY_FAILS = fails(TaskKind.COPY)

PHASES: list[tuple[tuple[Event, ...], PartitionRole, float, Phase]] = [
    # A partition of which nothing is remembered.
    ((), PartitionRole.FOLLOWER, 0.0, Phase.FOLLOWER),
    ((), PartitionRole.NEW_LEADER, 0.0, Phase.TAKING_OVER),
    ((), PartitionRole.LEADER, 0.0, Phase.LEADER),
    # A takeover that failed is tried again after a pause; tasks of a leader are not held up by it.
    ((TAKE_OVER_FAILS,), PartitionRole.NEW_LEADER, 0.49, Phase.TAKE_OVER_BACKOFF),
    ((TAKE_OVER_FAILS,), PartitionRole.NEW_LEADER, 0.5, Phase.TAKING_OVER),
    ((TAKE_OVER_FAILS,), PartitionRole.LEADER, 0.0, Phase.LEADER),
    # Any other task that failed holds up all of a leader's, and no takeover.
    ((COPY_FAILS,), PartitionRole.LEADER, 0.49, Phase.LEADER_BACKOFF),
    ((COPY_FAILS,), PartitionRole.LEADER, 0.5, Phase.LEADER),
    ((fails(TaskKind.EXPIRE),), PartitionRole.LEADER, 0.49, Phase.LEADER_BACKOFF),
    ((fails(TaskKind.COMPACT),), PartitionRole.LEADER, 0.49, Phase.LEADER_BACKOFF),
    ((COPY_FAILS,), PartitionRole.NEW_LEADER, 0.0, Phase.TAKING_OVER),
    # Pauses grow from failure to failure, of whatever kind, until a task succeeds.
    ((COPY_FAILS, COPY_FAILS), PartitionRole.LEADER, 0.99, Phase.LEADER_BACKOFF),
    ((COPY_FAILS, COPY_FAILS), PartitionRole.LEADER, 1.0, Phase.LEADER),
    ((TAKE_OVER_FAILS, COPY_FAILS), PartitionRole.LEADER, 0.99, Phase.LEADER_BACKOFF),
    ((COPY_FAILS, succeeds, COPY_FAILS), PartitionRole.LEADER, 0.5, Phase.LEADER),
    # Copies that were refused stay so for this leadership, whatever happens.
    ((refused,), PartitionRole.LEADER, 1e9, Phase.COPY_REFUSED),
    ((refused, succeeds), PartitionRole.LEADER, 1e9, Phase.COPY_REFUSED),
    ((refused, taken_over), PartitionRole.LEADER, 0.0, Phase.LEADER),
    ((refused,), PartitionRole.NEW_LEADER, 0.0, Phase.TAKING_OVER),
    # A copy that did not count rests for a while, also in the next leadership.
    ((paused,), PartitionRole.LEADER, 29.9, Phase.COPY_PAUSED),
    ((paused,), PartitionRole.LEADER, 30.0, Phase.LEADER),
    ((paused, taken_over), PartitionRole.LEADER, 29.9, Phase.COPY_PAUSED),
    # Where several hold: a failure's pause first, then the refusal, then copying's pause.
    ((paused, refused, COPY_FAILS), PartitionRole.LEADER, 0.49, Phase.LEADER_BACKOFF),
    ((paused, refused, COPY_FAILS), PartitionRole.LEADER, 0.5, Phase.COPY_REFUSED),
    ((paused, COPY_FAILS), PartitionRole.LEADER, 0.5, Phase.COPY_PAUSED),
    ((paused, refused, COPY_FAILS, TAKE_OVER_FAILS), PartitionRole.FOLLOWER, 0.0, Phase.FOLLOWER),
]


@pytest.mark.parametrize(("events", "role", "now_s", "phase"), PHASES)
def test_phases(events: tuple[Event, ...], role: PartitionRole, now_s: float, phase: Phase) -> None:
    state = RemotePartitionState()
    for event in events:
        event(state)
    assert state.phase(role, now_s) is phase
    assert state.may_start(role, now_s) == list(TASKS[phase])


def test_every_phase_is_in_both_tables() -> None:
    assert set(TASKS) == set(Phase) == {phase for *_, phase in PHASES}


@pytest.mark.parametrize(
    ("phase", "kinds"),
    [
        (Phase.FOLLOWER, ""),
        (Phase.TAKING_OVER, "take over"),
        (Phase.TAKE_OVER_BACKOFF, ""),
        (Phase.LEADER, "remove, copy, compact"),
        (Phase.LEADER_BACKOFF, ""),
        (Phase.COPY_PAUSED, "remove, compact"),
        (Phase.COPY_REFUSED, "remove"),
    ],
)
def test_what_may_start_and_in_which_order(phase: Phase, kinds: str) -> None:
    assert ", ".join(kind.value for kind in TASKS[phase]) == kinds


def test_a_task_does_not_start_twice() -> None:
    state = RemotePartitionState()
    state.running.add(TaskKind.COPY)
    assert state.may_start(PartitionRole.LEADER, 0.0) == [TaskKind.EXPIRE, TaskKind.COMPACT]


@pytest.mark.parametrize(
    ("failures", "wait_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (5_000, 30.0)]
)
def test_pauses_grow_up_to_a_bound(failures: int, wait_s: float) -> None:
    assert BACKOFF.wait_s(failures) == wait_s


def test_jitter_is_a_factor_of_the_pause() -> None:
    state = RemotePartitionState()
    state.failed(TaskKind.COPY, 10.0, BACKOFF, jitter=1.2)
    assert state.phase(PartitionRole.LEADER, 10.59) is Phase.LEADER_BACKOFF
    assert state.phase(PartitionRole.LEADER, 10.61) is Phase.LEADER


SEEN = ExpirationInput(7, 100, True)


@pytest.mark.parametrize(
    ("found", "now_s", "is_due"),
    [
        (SEEN, 59.9, False),
        (SEEN, 60.0, True),
        (SEEN._replace(metadata_version=8), 0.0, True),
        (SEEN._replace(log_start_offset=101), 0.0, True),
        (SEEN._replace(remote_storage_enable=False), 0.0, True),
    ],
)
def test_expiration_is_due_by_time_and_at_once_where_something_is_new(
    found: ExpirationInput, now_s: float, is_due: bool
) -> None:
    state = RemotePartitionState()
    assert state.is_expiration_due(SEEN, 0.0)
    state.begin_expiration(SEEN)
    state.end_expiration(SEEN, 60.0)
    assert state.is_expiration_due(found, now_s) is is_due


def test_a_new_leadership_looks_at_everything_at_once() -> None:
    state = RemotePartitionState()
    state.end_expiration(SEEN, 60.0)
    state.end_sweep(600.0)
    assert not state.is_expiration_due(SEEN, 0.0)
    assert not state.is_sweep_due(0.0)
    state.taken_over()
    assert state.is_expiration_due(SEEN, 0.0)
    assert state.is_sweep_due(0.0)


def test_an_expiration_that_did_not_come_to_its_end_stays_due() -> None:
    state = RemotePartitionState()
    state.begin_expiration(SEEN)
    assert state.is_expiration_due(SEEN, 0.0)


def test_all_copies_go_while_remote_storage_is_off() -> None:
    state = RemotePartitionState()
    state.begin_expiration(SEEN._replace(remote_storage_enable=False))
    assert state.is_removing_all
    state.begin_expiration(SEEN)
    assert not state.is_removing_all


def test_compaction_looks_once_at_what_has_not_changed() -> None:
    state = RemotePartitionState()
    assert [state.begin_compaction_look(version) for version in (0, 0, 1, 1)] == [True, False, True, False]
    state.end_compaction()
    assert state.begin_compaction_look(1)


def test_replaced_segments_are_left_to_their_readers_for_a_while() -> None:
    state = RemotePartitionState()
    assert state.still_read([b"a"], 0.0, 60.0) == {b"a"}
    assert state.still_read([b"a", b"b"], 59.0, 60.0) == {b"a", b"b"}
    assert state.still_read([b"a", b"b"], 60.0, 60.0) == {b"b"}
    assert state.still_read([b"b"], 119.0, 60.0) == set()
    assert state.still_read([b"a"], 120.0, 60.0) == {b"a"}  # it was gone, and another is of this name now
