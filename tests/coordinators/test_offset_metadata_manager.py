"""Commits over connections that their members have given up, which the handler's test shows made; and what
is refused because of its size.
"""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.coordinators.group.offset_metadata_manager import (
    FORMER_MAX,
    CommitOrder,
    CommittedOffset,
    OffsetToCommit,
    check_batch_size,
    offset_record,
)
from headrace.records.batch import Record, build_batch
from headrace.wire.record_frames import encode_key, encode_value

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
COMMITTED = {T0: CommittedOffset(10, 0, "", 0)}


def is_overtaken(order: CommitOrder, offset: int, at: TopicPartition = T0, **who: object) -> bool:
    caller = {"group_id": "g", "member_id": "m", "opened_at": 1.0} | who
    commits = [OffsetToCommit(at, TopicId(bytes(16)), offset)]
    return order.is_overtaken(**caller, commits=commits, committed=COMMITTED)  # type: ignore[arg-type]


def test_only_what_goes_back_over_an_older_connection_of_the_same_member() -> None:
    order = CommitOrder()
    assert not is_overtaken(order, 9)
    order.note("g", "m", 1.0, {"m"})
    assert not is_overtaken(order, 9)
    order.note("g", "m", 2.0, {"m"})
    order.note("g", "m", 1.0, {"m"})
    assert is_overtaken(order, 9)
    assert not is_overtaken(order, 10)
    assert not is_overtaken(order, 9, T1)
    assert not is_overtaken(order, 9, opened_at=2.0)
    assert not is_overtaken(order, 9, member_id="another")
    assert not is_overtaken(order, 9, group_id="another")
    order.forget("g")
    assert not is_overtaken(order, 9)


def test_former_members_are_forgotten_and_present_ones_are_not() -> None:
    order = CommitOrder()
    order.note("g", "m", 2.0, {"m"})
    order.note("g", "former", 2.0, {"m"})
    for number in range(FORMER_MAX):
        order.note("g", f"m{number}", 2.0, {"m"})
    assert is_overtaken(order, 9)
    assert not is_overtaken(order, 9, member_id="former")


@pytest.mark.parametrize("metadata", ["", "a note"])
def test_a_batch_that_is_refused_for_its_size_would_have_been_larger(metadata: str) -> None:
    """The estimate never refuses what fits: it counts less than there is."""
    commit = OffsetToCommit(TopicPartition("t", 0), TopicId(bytes(16)), 0, metadata=metadata)
    record = offset_record("g", commit, now_ms=0)
    value = encode_value(record.value, record.version)
    rows = [Record(0, 0, encode_key(record.key), value, ())] * 1_000
    size = len(build_batch(rows))
    check_batch_size("g", [(None, commit)] * 1_000, size)
    with pytest.raises(ApiError) as refused:
        check_batch_size("g", [(None, commit)] * 1_000, size // 2)
    assert refused.value.code is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
