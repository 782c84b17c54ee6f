"""After a restart all five batches that a producer may have in flight are known, not only the last."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.records.batch import batches
from tests.log.building import NOW_MS, append, batch_of, sequenced

SIZE = len(sequenced(7, 0, 0))


def answers(log, sequences, producer_id=7):
    """What a repetition of each of these batches is told."""
    results = [append(log, sequenced(producer_id, 0, sequence)) for sequence in sequences]
    return [(result.duplicate, result.first_offset) for result in results]


def reopen(logs, log, how, **settings):
    if how == "clean stop":
        return logs.reopen(log, **settings)
    return logs.open(recovery_point=log.recovery_point, **settings)


def flush(log):
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)


@pytest.mark.parametrize("how", ["clean stop", "kill"])
@pytest.mark.parametrize("segment_batches", [1, 2, 3, 1000])
@pytest.mark.parametrize("flushed_at", [0, 9, 12, 13])
def test_five_in_flight_are_recognised_after_a_restart(logs, how, segment_batches, flushed_at):
    log = logs.open(segment_bytes=segment_batches * SIZE)
    for sequence in range(13):
        if sequence == flushed_at and flushed_at:
            flush(log)
        append(log, sequenced(7, 0, sequence))
    log = reopen(logs, log, how, segment_bytes=segment_batches * SIZE)
    assert answers(log, range(8, 13)) == [(True, offset) for offset in range(8, 13)]
    assert answers(log, [13]) == [(False, 13)]
    assert answers(log, range(9, 14)) == [(True, offset) for offset in range(9, 14)]


def test_each_of_many_producers_is_looked_up(logs):
    log = logs.open()
    for sequence in range(6):
        for producer_id in range(1, 9):
            append(log, sequenced(producer_id, 0, sequence))
        append(log, batch_of(1))  # of a producer that numbers nothing
    log = logs.reopen(log)
    for producer_id in range(1, 9):
        first = producer_id - 1
        expected = [(True, sequence * 9 + first) for sequence in range(1, 6)]
        assert answers(log, range(1, 6), producer_id) == expected


def test_large_batches_are_looked_up_further_back(logs):
    def large(sequence):
        return batch_of(1, value=b"v" * 500_000, producer_id=7, producer_epoch=0, base_sequence=sequence)

    log = logs.open()
    for sequence in range(7):
        append(log, large(sequence))
    log = logs.reopen(log)
    for sequence in range(2, 7):
        again = append(log, large(sequence))
        assert (again.duplicate, again.first_offset) == (True, sequence)


def test_an_earlier_epoch_is_not_mixed_in(logs):
    log = logs.open()
    for sequence in range(4):
        append(log, sequenced(7, 0, sequence))
    append(log, sequenced(7, 1, 0))
    append(log, sequenced(7, 1, 1))
    log = logs.reopen(log)
    assert [mark.first_offset for mark in log.producer_state_manager.producers[7].batches] == [4, 5]


@pytest.mark.parametrize("field", ["sequence", "producer id", "offset"])
def test_damage_costs_memory_and_makes_nothing_up(logs, field):
    log = logs.open()
    for sequence in range(10):
        append(log, sequenced(7, 0, sequence))
    log.close().sync()
    path = f"{logs.folder}/{0:020}.log"
    position = list(batches(logs.disk.read_file(path)))[7][0]
    at = {"offset": 7, "producer id": 50, "sequence": 56}[field]
    file = logs.disk.open(path)
    byte = file.read(position + at, 1)[0] ^ 8
    file.write(position + at, (bytes([byte]),))
    log = logs.open(clean=True)
    known = [mark.first_sequence for mark in log.producer_state_manager.producers[7].batches]
    assert known == list(range(10))[-len(known) :]
    with pytest.raises(ApiError) as raised:
        append(log, sequenced(7, 0, 6))
    assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("damage", ["gone", "nonsense"])
def test_a_broken_index_is_made_anew_for_it(logs, damage):
    log = logs.open(index_interval_bytes=1)
    for sequence in range(3000):
        append(log, sequenced(7, 0, sequence))
    log.close().sync()
    path = f"{logs.folder}/{0:020}.index"
    if damage == "gone":
        logs.disk.remove(path)
    else:
        size = logs.disk.size(path)
        logs.disk.replace_file(path, b"".join(n.to_bytes(8, "big") for n in range(size // 8)))
    log = logs.open(clean=True, index_interval_bytes=1)
    assert answers(log, range(2995, 3000)) == [(True, offset) for offset in range(2995, 3000)]


def test_a_producer_whose_last_batch_and_snapshot_are_damaged_is_refused_until_its_next_epoch(logs):
    """What nothing readable tells must not be guessed: a guess would write a batch twice."""
    log = logs.open(segment_bytes=3 * SIZE)
    for sequence in range(8):
        append(log, sequenced(7, 0, sequence))
    log.close().sync()
    for offset in (6, 8):
        path = f"{logs.folder}/{offset:020}.snapshot"
        logs.disk.replace_file(path, b"x" + logs.disk.read_file(path)[1:])
    path = f"{logs.folder}/{3:020}.log"
    position = list(batches(logs.disk.read_file(path)))[2][0]
    file = logs.disk.open(path)
    file.write(position + 56, (bytes([file.read(position + 56, 1)[0] ^ 8]),))
    for number in (6, 7):
        path = f"{logs.folder}/{6:020}.log"
        file = logs.disk.open(path)
        at = (number - 6) * SIZE + 56
        file.write(at, (bytes([file.read(at, 1)[0] ^ 8]),))
    log = logs.open(clean=True, recovery_point=8, segment_bytes=3 * SIZE)
    assert log.log_end_offset == 8
    with pytest.raises(ApiError) as raised:
        append(log, sequenced(7, 0, 8))
    assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert answers(log, range(1, 5)) == [(True, offset) for offset in range(1, 5)]
    assert append(log, sequenced(7, 1, 0)).first_offset == 8
