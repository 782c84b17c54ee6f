"""Mistakes that copying and removing could make, planted one at a time: a crash at one step shows each."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.replication import tier_rounds, tiering
from headrace.testing.world import CheckFailedError
from headrace.tiered import copying, removal
from headrace.tiered.remote_segment import RemoteSegment, SegmentState
from headrace.tiered.steps import Steps, Tell
from headrace.tiered.store import RemoteStoreError
from tests.node.test_tier_crashes import AFTER, BEFORE, Plan, run

Plant = Callable[[pytest.MonkeyPatch], None]


def objects_before_the_record(patch: pytest.MonkeyPatch) -> None:
    """Nobody knows of what a crash leaves; and nobody looks for it."""

    def copy(found: Any, new: Any, *, store: Any, teller: Any, **_: object) -> Steps:
        yield from copying._objects(found, new, store, teller.now_ms())
        yield Tell(new)
        return bool((yield teller.update(new, SegmentState.COPY_FINISHED)))

    async def sweep(*_: object) -> None: ...

    patch.setattr(tiering, "copy", copy)
    patch.setattr(tier_rounds.TierRounds, "sweep", sweep)


def finished_before_the_objects(patch: pytest.MonkeyPatch) -> None:
    """A copy counts that is not whole."""

    def copy(found: Any, new: Any, *, store: Any, teller: Any, **_: object) -> Steps:
        yield Tell(new)
        yield teller.update(new, SegmentState.COPY_FINISHED)
        yield from copying._objects(found, new, store, teller.now_ms())
        return True

    patch.setattr(tiering, "copy", copy)


def remains_are_left(patch: pytest.MonkeyPatch) -> None:
    """What a leader began and did not finish stays."""
    whole = removal._left_alone

    def left_alone(*arguments: object) -> list[RemoteSegment]:
        found = whole(*arguments)  # type: ignore[arg-type]
        return [segment for segment in found if segment.state is not SegmentState.COPY_STARTED]

    patch.setattr(removal, "_left_alone", left_alone)


def told_and_not_done(patch: pytest.MonkeyPatch) -> None:
    """A removal that is told, and removes nothing."""
    patch.setattr(removal, "delete_objects", lambda store, segment: 0)


@pytest.mark.parametrize(
    ("plant", "plan"),
    [
        (objects_before_the_record, Plan(3, AFTER)),
        (finished_before_the_objects, Plan(1, BEFORE)),
        (remains_are_left, Plan(3, AFTER)),
        (told_and_not_done, Plan(3, AFTER)),
    ],
)
def test_it_is_found(plant: Plant, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((CheckFailedError, RemoteStoreError, AssertionError)):
        run(plan)
