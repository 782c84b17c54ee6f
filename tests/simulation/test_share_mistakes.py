"""The simulator finds mistakes of share groups: at least one for each rule of `share_rules`, made on purpose,
and found in a few seeds.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.share.state_batches import StateBatch
from headrace.replication.partition import Partition
from headrace.server.share import share_partition, share_partition_manager
from headrace.server.share.dead_letter_queue import DeadLetterQueue
from headrace.server.share.in_flight_batch import RecordState
from headrace.server.share.key_order import KeyOrder
from headrace.server.share.share_partition import SharePartition, Transition
from headrace.server.share.share_partition_manager import LedSharePartition, SharePartitionManager, _Write
from headrace.server.share.window import ShareWindow
from headrace.testing.simulate import SeedFailedError, play
from headrace.wire.schemas.share_fetch import AcknowledgeType

Patch = pytest.MonkeyPatch
SEEDS_MAX = 12


def _a_new_group_begins_at_the_end(patch: Patch) -> None:
    """Whatever `share.auto.offset.reset` says."""

    def first_offset(manager: SharePartitionManager, group_id: str, partition: Partition) -> int:
        return partition.leading_log().high_watermark

    patch.setattr(SharePartitionManager, "_first_offset", first_offset)


def _everybody_may_answer(patch: Patch) -> None:
    patch.setattr(SharePartition, "_check_owned", lambda core, member_id, first, last: None)


def _nobody_counts_deliveries(patch: Patch) -> None:
    def state_after(kind: AcknowledgeType, delivery_count: int, delivery_count_limit: int) -> RecordState:
        return rightly(kind, delivery_count, delivery_count + 1)

    rightly = share_partition._state_after
    patch.setattr(share_partition, "_state_after", state_after)


def _locks_do_not_end(patch: Patch) -> None:
    patch.setattr(SharePartitionManager, "_expire", lambda manager, led: None)


def _only_the_start_is_kept(patch: Patch) -> None:
    """Whoever leads next does not know what was accepted behind it."""

    def changes_of(transition: Transition) -> Iterable[StateBatch]:
        return []

    patch.setattr(share_partition_manager, "changes_of", changes_of)


def _answered_before_it_is_written(patch: Patch) -> None:
    """By a moment: the record follows, unless the leader ends before."""

    def write(manager: SharePartitionManager, led: LedSharePartition, what: _Write) -> None:
        what.done(ErrorCode.NONE)
        later = what._replace(done=lambda error: None)
        manager._loop.call_later(0.1, rightly, manager, led, later)

    rightly = SharePartitionManager._write
    patch.setattr(SharePartitionManager, "_write", write)


def _letters_are_written_at_most_once(patch: Patch) -> None:
    """A failure is taken for the end of it."""

    async def produce(queue: DeadLetterQueue, *what: Any) -> None:
        with suppress(ConnectionError, ApiError):
            await rightly(queue, *what)

    rightly = DeadLetterQueue._produce
    patch.setattr(DeadLetterQueue, "_produce", produce)


def _rests_do_not_end(patch: Patch) -> None:
    patch.setattr(SharePartition, "end_rests", lambda core, now_ms: False)


def _keys_do_not_wait(patch: Patch) -> None:
    rightly = KeyOrder.add
    patch.setattr(KeyOrder, "add", lambda order, *record: rightly(order, *record) * 0)


def _a_new_leader_does_not_read_keys_again(patch: Patch) -> None:
    """It has what comes, and not what its window held before."""

    def order_by_key(window: ShareWindow, records_max: int, *looks: Any) -> None:
        if records_max and window.order is None:
            window.order = KeyOrder(window.end_offset + 1, records_max)

    patch.setattr(ShareWindow, "order_by_key", order_by_key)


class Mistake(NamedTuple):
    plant: Callable[[Patch], None]
    likely: int
    """The seed that showed it soon when last looked at."""
    rule: str


MISTAKES = [
    Mistake(_a_new_group_begins_at_the_end, 0, "was never handed out"),
    Mistake(_everybody_may_answer, 3, "no leader has taken that"),
    Mistake(_answered_before_it_is_written, 0, "no leader has taken that"),
    Mistake(_nobody_counts_deliveries, 3, "the limit is"),
    Mistake(_locks_do_not_end, 3, "has a lock that ended"),
    Mistake(_only_the_start_is_kept, 0, "has it to hand out in epoch"),
    Mistake(_rests_do_not_end, 2, "the group has read all"),
    Mistake(_only_the_start_is_kept, 3, "one behind it of its key"),
    Mistake(_keys_do_not_wait, 3, "of its key is not done with"),
    Mistake(_a_new_leader_does_not_read_keys_again, 3, "of its key is not done with"),
    Mistake(_letters_are_written_at_most_once, 23, "nor is it in a letter"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.plant.__name__.strip("_"))
def test_the_mistake_is_found(mistake: Mistake, monkeypatch: Patch) -> None:
    mistake.plant(monkeypatch)
    for seed in (mistake.likely, *range(SEEDS_MAX)):
        try:
            play("share", seed)
        except SeedFailedError as found:
            if re.search(mistake.rule, found.failure.rule):
                return
    pytest.fail(f"not found within {SEEDS_MAX} seeds")
