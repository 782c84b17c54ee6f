"""Mistakes that copying and removing could make, planted one at a time: a crash at one step shows each."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.remote_log import copier, expiration
from headrace.remote_log.steps import Publish, Steps
from headrace.testing.world import CheckFailedError
from headrace.tiered.remote_storage import RemoteStorageError
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.remote_log.test_crashes import AFTER, BEFORE, Plan, run

Plant = Callable[[pytest.MonkeyPatch], None]


def objects_before_the_record(patch: pytest.MonkeyPatch) -> None:
    """Nobody knows of what a crash leaves; and nobody looks for it."""

    def copy(found: Any, new: Any, *, store: Any, publisher: Any, **_: object) -> Steps:
        yield from copier._objects(found, new, store, publisher.now_ms())
        yield Publish(new)
        return bool((yield publisher.update(new, RemoteLogSegmentState.COPY_FINISHED)))

    async def sweep(*_: object) -> None: ...

    patch.setattr(copier, "copy", copy)
    patch.setattr(expiration.OrphanSweep, "run", sweep)


def finished_before_the_objects(patch: pytest.MonkeyPatch) -> None:
    """A copy counts that is not whole."""

    def copy(found: Any, new: Any, *, store: Any, publisher: Any, **_: object) -> Steps:
        yield Publish(new)
        yield publisher.update(new, RemoteLogSegmentState.COPY_FINISHED)
        yield from copier._objects(found, new, store, publisher.now_ms())
        return True

    patch.setattr(copier, "copy", copy)


def remains_are_left(patch: pytest.MonkeyPatch) -> None:
    """What a leader began and did not finish stays."""
    whole = expiration._left_alone

    def left_alone(*arguments: object) -> list[RemoteLogSegmentMetadata]:
        found = whole(*arguments)  # type: ignore[arg-type]
        return [segment for segment in found if segment.state is not RemoteLogSegmentState.COPY_STARTED]

    patch.setattr(expiration, "_left_alone", left_alone)


def told_and_not_done(patch: pytest.MonkeyPatch) -> None:
    """A removal that is told, and removes nothing."""
    patch.setattr(expiration, "delete_objects", lambda store, segment: 0)


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
    with pytest.raises((CheckFailedError, RemoteStorageError, AssertionError)):
        run(plan)
