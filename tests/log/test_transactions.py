"""The last stable offset and aborted transactions, over segments and restarts."""

import random

import pytest

from tests.log.building import NOW_MS, append, append_marker, batch_of, sequenced


def test_readers_of_committed_records_stop_at_open_transactions(logs):
    log = logs.open()
    append(log, batch_of(3))  # 0-2
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3
    append(log, sequenced(7, 0, 0, 2, transactional=True))  # 3, 4
    append(log, batch_of(1))  # 5
    log.advance_high_watermark(6)
    assert log.last_stable_offset == 3
    append_marker(log, 7, 0, commit=True)  # 6
    assert log.last_stable_offset == 3
    log.advance_high_watermark(7)
    assert log.last_stable_offset == 7
    assert log.aborted_transactions(0, 7) == []


def test_an_open_transaction_above_the_high_watermark_does_not_count(logs):
    log = logs.open()
    append(log, batch_of(3))
    log.advance_high_watermark(2)
    append(log, sequenced(7, 0, 0, transactional=True))
    assert log.last_stable_offset == 2


def test_aborted_transactions_over_segment_borders(logs):
    """KAFKA-17801: the records are in one segment, the marker two further on."""
    log = logs.open()
    append(log, sequenced(7, 0, 0, 2, transactional=True))  # 0, 1
    log.roll(NOW_MS)
    append(log, sequenced(8, 0, 0, transactional=True))  # 2
    append_marker(log, 8, 0, commit=False)  # 3
    log.roll(NOW_MS)
    append_marker(log, 7, 0, commit=False)  # 4
    append(log, batch_of())  # 5
    for reopened in (log, logs.reopen(log), logs.open()):
        reopened.advance_high_watermark(6)
        assert reopened.last_stable_offset == 6
        assert reopened.aborted_transactions(0, 2) == [(7, 0)]
        assert reopened.aborted_transactions(0, 6) == [(8, 2), (7, 0)]
        assert reopened.aborted_transactions(4, 6) == [(7, 0)]
        assert reopened.aborted_transactions(5, 6) == []
        assert not logs.disk.exists(f"{reopened.segments.first.stem}.txnindex")


@pytest.mark.parametrize("seed", range(8))
def test_against_a_model(logs, seed):
    rng = random.Random(seed)
    log = logs.open(segment_bytes=400)
    open_since, aborted, sequences = {}, [], dict.fromkeys(range(1, 6), 0)
    for _ in range(120):
        producer = rng.randint(1, 5)
        end = log.log_end_offset
        if producer in open_since and rng.random() < 0.4:
            commit = rng.random() < 0.5
            append_marker(log, producer, 0, commit=commit)
            first = open_since.pop(producer)
            if not commit:
                aborted.append((producer, first, end))
        else:
            append(log, sequenced(producer, 0, sequences[producer], 2, transactional=True))
            sequences[producer] += 2
            open_since.setdefault(producer, end)
        if rng.random() < 0.05:
            log = logs.open() if rng.random() < 0.5 else logs.reopen(log)
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == min(open_since.values(), default=log.log_end_offset)
    for _ in range(50):
        first = rng.randrange(log.log_end_offset)
        upto = rng.randint(first, log.log_end_offset)
        wanted = {(p, start) for p, start, last in aborted if last >= first and start < upto}
        assert wanted == set(log.aborted_transactions(first, upto))


def test_a_broken_transaction_index_is_made_anew_at_start(logs):
    log = logs.open()
    append(log, sequenced(7, 0, 0, 2, transactional=True))
    append_marker(log, 7, 0, commit=False)
    log.roll(NOW_MS)
    append(log, batch_of())
    log = logs.reopen(log)
    path = f"{log.segments.first.stem}.txnindex"
    good = logs.disk.read_file(path)
    logs.disk.replace_file(path, good[:-1])
    log = logs.open(clean=True)
    assert log.aborted_transactions(0, 4) == [(7, 0)]
    assert logs.disk.read_file(path) == good
