"""The last stable offset and aborted transactions, over segments and restarts."""

import random

import pytest

from tests.log.building import NOW_MS, append, append_marker, batch_of, sequenced


def test_readers_of_committed_records_stop_at_open_transactions(logs):
    log = logs.open()
    append(log, batch_of(3))  # 0-2
    log.maybe_increment_high_watermark(3)
    assert log.last_stable_offset == 3
    append(log, sequenced(7, 0, 0, 2, transactional=True))  # 3, 4
    append(log, batch_of(1))  # 5
    log.maybe_increment_high_watermark(6)
    assert log.last_stable_offset == 3
    append_marker(log, 7, 0, commit=True)  # 6
    assert log.last_stable_offset == 3
    log.maybe_increment_high_watermark(7)
    assert log.last_stable_offset == 7
    assert log.aborted_transactions(0, 7) == []


def test_an_open_transaction_above_the_high_watermark_does_not_count(logs):
    log = logs.open()
    append(log, batch_of(3))
    log.maybe_increment_high_watermark(2)
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
        reopened.maybe_increment_high_watermark(6)
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
    log.maybe_increment_high_watermark(log.log_end_offset)
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


def flip_producer(logs, path):
    data = bytearray(logs.disk.read_file(path))
    data[9] ^= 1
    logs.disk.replace_file(path, bytes(data))


@pytest.mark.parametrize("harm", [lambda logs, path: logs.disk.remove(path), flip_producer])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_transaction_index_that_is_gone_or_another_is_made_anew(logs, caplog, harm, is_closed):
    log = logs.open()
    append(log, sequenced(7, 0, 0, 2, transactional=True))  # 0, 1
    append_marker(log, 7, 0, commit=False)  # 2
    log.roll(NOW_MS)
    append(log, batch_of())  # 3
    path = f"{log.segments.first.stem}.txnindex"
    log = logs.reopen(log)
    assert "txnindex" not in caplog.text
    harm(logs, path)
    log = logs.open(clean=True) if is_closed else logs.open(recovery_point=4)
    assert f"{path} is damaged" in caplog.text
    assert log.aborted_transactions(0, 3) == [(7, 0)]


def test_a_cut_log_does_not_miss_its_transaction_index(logs, caplog):
    log = logs.open()
    append(log, batch_of())  # 0
    append(log, sequenced(7, 0, 0, 2, transactional=True))  # 1, 2
    append_marker(log, 7, 0, commit=False)  # 3
    log = logs.reopen(log)
    log.truncate_to(1, now_ms=NOW_MS)
    logs.open(recovery_point=1)
    assert "txnindex" not in caplog.text
