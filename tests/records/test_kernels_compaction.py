"""The kernels of compaction, as they are written and compiled, and their oracles: the same answers, and the
same bytes."""

import random

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.records.batch import Record, build_batch, read_header, read_records, records_section
from headrace.records.codecs import compress
from headrace.records.compaction.layout import Parameter, StopReason
from headrace.records.compaction.offset_map import OffsetMap
from headrace.records.compaction.segment_writer import BatchRetention, SegmentWriter
from headrace.records.header import join_batch
from headrace.settings.definition import LONG_MAX
from tests.records.kernel_forms import FORMS, use
from tests.records.oracles.compaction_mapping import crc32c as crc_by_tables

NOW_MS = 1_700_000_000_000


@pytest.fixture(params=FORMS, ids=str)
def twin(request, monkeypatch):
    use(monkeypatch, request.param)
    return request.param


def some_batches(seed, count=30, *, codec=0, records_min=0):
    """Batches one behind the other, with gaps, wide numbers, delete markers, and ones that had a horizon."""
    rng = random.Random(seed)
    offset, out = rng.choice([0, 10**12]), bytearray()
    for _ in range(count):
        rows = []
        base = offset
        for _ in range(rng.randint(records_min, 7)):
            rows.append(
                Record(
                    offset,
                    NOW_MS + rng.randint(-(10**9), 10**9),
                    None
                    if rng.random() < 0.1
                    else b"k" * rng.choice([0, 1, 7, 8, 9, 70, 200]) + b"%d" % rng.randrange(4),
                    None if rng.random() < 0.3 else rng.randbytes(rng.choice([0, 3, 100, 9000])),
                    (("name", None), ("n", b"x" * 70)) if rng.random() < 0.2 else (),
                )
            )
            offset += rng.choice([1, 1, 1, 300])
        offset += rng.randint(1, 3)
        out += build_batch(
            rows,
            base_offset=base,
            codec=codec,
            keep_offsets=True,
            last_offset_delta=offset - base - 1,
            append_time_ms=rng.choice([None, None, NOW_MS]),
            delete_horizon_ms=rng.choice([None, None, NOW_MS - 5, NOW_MS + 5]),
            producer_id=rng.choice([-1, 7]),
            producer_epoch=0,
            base_sequence=5,
        )
    return bytes(out)


def table_of(data, *, start=0, size_bytes=24 * 200, load_factor=0.9):
    table = OffsetMap(size_bytes, load_factor, (2**63 + 1, 12345))
    table.begin(start, start + 200)
    return table, table.add(data, 0, len(data))


def writer_for(data, table, kept, *, room_bytes, retention_ms=1000):
    return SegmentWriter(
        table,
        base_offset=read_header(data).base_offset,
        now_ms=NOW_MS,
        delete_retention_ms=retention_ms,
        index_interval_bytes=300,
        index_bytes_max=200,
        kept_offsets=kept,
        room_bytes=room_bytes,
    )


def cleaned(data, table, *, kept=(), last_end=-1, window=1 << 16, retention_ms=1000):
    writer = writer_for(data, table, kept, room_bytes=window, retention_ms=retention_ms)
    out, at = b"", 0
    while True:
        code, at = writer.clean(data, at, len(data), last_end=last_end)
        out += bytes(writer.take())
        if code is not StopReason.FULL:
            return out, at, writer.indexes(), (writer.records_read, writer.records_kept, writer.position)
        writer.make_room(read_header(data, at).size)


@pytest.mark.parametrize("seed", range(25))
def test_twins_leave_the_same_bytes(seed, monkeypatch):
    data = some_batches(seed)
    base = read_header(data).base_offset
    answers = []
    for form in FORMS:
        use(monkeypatch, form)
        for slots in (200, 6):
            table, ended = table_of(data, start=base + seed, size_bytes=24 * slots)
            told = ended, bytes(table.data), table.latest, len(table), table.records
            kept = [header.last_offset for header in _headers(data)][::3]
            retention_ms = 1000 if seed % 3 else LONG_MAX
            found = cleaned(data, table, kept=kept, last_end=len(data), retention_ms=retention_ms)
            answers.append((told, found))
    assert answers[0] == answers[2] == answers[4]
    assert answers[1] == answers[3] == answers[5]
    assert answers[1][0][0][0] is StopReason.FULL or len(answers[1][0][1]) < 24 * 6


def _headers(data):
    at, found = 0, []
    while at < len(data):
        found.append(read_header(data, at))
        at += found[-1].size
    return found


@pytest.mark.parametrize("seed", range(25))
def test_what_is_noted_by_offset_decides_as_keys_do(seed, twin):
    """Where the table began, and where it ends: records before and behind are looked up by their keys, or
    stay."""
    data = some_batches(seed)
    headers = _headers(data)
    start, end = headers[seed % 9].base_offset, sum(header.size for header in headers[:-4])
    answers = []
    for notes_bytes in (0, 8, 1 << 16):
        table = OffsetMap(24 * 200, 0.9, (1, 2), notes_bytes=notes_bytes)
        table.begin(start, headers[-1].next_offset)
        assert table.add(data, 0, end) == (StopReason.MORE, end)
        notes_are_used = table.params[Parameter.NOTED_END] > table.latest
        assert notes_are_used == (notes_bytes > 8)
        answers.append(cleaned(data, table, last_end=len(data)))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("damage", ["length", "magic", "crc", "record"])
def test_damage_is_told_apart(twin, damage):
    good = build_batch([Record(0, NOW_MS, b"key", b"value")])
    bad = bytearray(good)
    if damage == "length":
        bad[8:12] = (5).to_bytes(4, "big")
    elif damage == "magic":
        bad[16] = 1
    elif damage == "crc":
        bad[70] ^= 1
    else:
        rotten = bytearray(good)
        rotten[61] = 126  # a size that leads behind the batch
        header = read_header(good)
        bad = join_batch(header, rotten[61:])
    text = {"length": "header", "magic": "header", "crc": "CRC", "record": "record"}[damage]
    with pytest.raises(InvalidBytesError, match=f"byte {len(good)} .*{text}"):
        table_of(bytes(good + bad))
    table, _ = table_of(bytes(good))
    with pytest.raises(InvalidBytesError, match=f"byte {len(good)} .*{text}"):
        cleaned(bytes(good + bad), table)


@pytest.mark.parametrize("load_factor", [-1.0, 0.0, 1e300])
def test_a_load_factor_without_sense_leaves_room_for_keys(load_factor):
    table = OffsetMap(24 * 50, load_factor, (1, 2))
    table.begin(0, 200)
    assert table.data.nbytes in range(24, 24 * 50 + 1)


def test_what_is_cut_off_waits_for_more(twin):
    data = bytes(build_batch([Record(0, NOW_MS, b"key", b"value")]))
    table, _ = table_of(data)
    for size in (0, 60, len(data) - 1):
        assert table.add(data, 0, size) == (StopReason.MORE, 0)


@pytest.mark.parametrize("fields", [{"codec": 4}, {"transactional": True}, {"control": True}])
def test_batches_of_other_kinds_are_handed_back(twin, fields):
    data = bytes(build_batch([Record(0, NOW_MS, b"key", b"value")], **fields))
    table, ended = table_of(data)
    assert ended == (StopReason.OTHER, 0)
    assert cleaned(data, table)[1] == 0


@pytest.mark.parametrize("codec", range(5))
def test_a_packed_batch_is_packed_again(twin, codec):
    rows = [Record(0, NOW_MS + i, b"key %d" % (i % 3), b"v" * 50) for i in range(9)]
    batch = bytes(build_batch(rows, codec=codec))
    header = read_header(batch)
    body = bytes(build_batch(rows))[61:]
    table = OffsetMap(24 * 50, 0.9, (1, 2))
    table.begin(0, 9)
    assert table.add_records(body, header)
    assert (len(table), table.latest) == (3, 8)
    writer = SegmentWriter(
        table,
        base_offset=0,
        now_ms=NOW_MS,
        delete_retention_ms=5,
        index_interval_bytes=100,
        index_bytes_max=100,
        kept_offsets=(),
        room_bytes=10,
    )
    writer.put(batch, BatchRetention(False, False, False, False), body, header)
    found = bytes(writer.take())
    assert read_header(found).codec == codec
    kept = [record._replace(offset=0) for record in read_records(found)]
    assert kept == rows[6:]
    writer.put(batch, BatchRetention(True, True, False, False), b"", header)
    empty = read_header(writer.take())
    assert (empty.record_count, empty.codec, empty.last_offset, empty.size) == (0, 0, 8, 61)


def test_crc_by_the_cpu_is_crc_by_tables():
    import numpy as np

    from headrace.records.kernels import crc

    data = random.Random(1).randbytes(5000)
    array = np.frombuffer(data, np.uint8)
    places = ((0, 0), (0, 1), (3, 10), (1, 384), (1, 385), (2, 390), (1, 3073), (1, 5000), (7, 4999))
    for at, end in places:
        assert crc.crc32c(array, at, end) == crc_by_tables(data, at, end)


def packed_batches(seed):
    rng = random.Random(seed)
    out, offset = bytearray(), 5
    for _ in range(rng.randint(2, 9)):
        rows = [Record(0, NOW_MS, b"key %d" % rng.randrange(9), b"v" * rng.randrange(90)) for _ in range(9)]
        out += build_batch(rows[: rng.randint(1, 9)], base_offset=offset, codec=4)
        offset = read_header(out, len(out) - _headers(out)[-1].size).next_offset
    return bytes(out)


@pytest.mark.parametrize("seed", range(8))
def test_many_packed_batches_at_once_are_each_of_them_one_by_one(seed, monkeypatch):
    data, told = packed_batches(seed), []
    for form in FORMS:
        use(monkeypatch, form)
        for together in (True, False):
            table = OffsetMap(24 * (4 if seed == 7 else 99), 0.9, (1, 2), runs_bytes=1 << 12)
            table.begin(0, 99)
            origin, at, code = table.open(0, len(data)), 0, StopReason.MORE
            if together:
                found = table.unpack(data, 0, len(data))
                assert [found.row(number)[1] for number in range(found.batches)] == [
                    header.size for header in _headers(data)
                ]
                code, at = table.add_unpacked(data, found, position=origin)
            for header in [] if together else _headers(data):
                body = records_section(data[at : at + header.size], header, limit_bytes=1 << 20)
                if not table.add_records(body, header, position=origin + at):
                    code = StopReason.FULL
                    break
                at += header.size
            told.append((code, at, bytes(table.data), table.latest, table.records, bytes(table._runs.rows)))
    assert all(each == told[0] for each in told)
    assert told[0][0] is (StopReason.FULL if seed == 7 else StopReason.MORE)


def cleaned_packed(data, table, *, kept, together):
    """What becomes of packed batches, looked up and written many at once or each by itself."""
    writer = writer_for(data, table, kept, room_bytes=10)
    at = 0
    while at < len(data):
        found = writer.unpack(data, at, len(data)) if together else None
        if found is None:
            header = read_header(data, at)
            batch = data[at : at + header.size]
            body = records_section(batch, header, limit_bytes=1 << 20)
            writer.put(batch, BatchRetention(False, header.last_offset in kept, False, False), body, header)
            at += header.size
            continue
        writer.look_up(data, found)
        for number in range(found.batches):
            keeps = read_header(data, at).last_offset in kept
            writer.put_unpacked(data, found, number, keep_empty=keeps)
            at += found.row(number)[1]
    return bytes(writer.take()), writer.indexes(), writer.records_read, writer.records_kept, writer.position


@pytest.mark.parametrize("seed", range(25))
def test_packed_batches_are_cleaned_together_as_each_by_itself(seed, monkeypatch):
    data = some_batches(seed, codec=4, records_min=1)
    base = read_header(data).base_offset
    kept = [header.last_offset for header in _headers(data)][::3]
    answers = []
    for form in FORMS:
        use(monkeypatch, form)
        for together in (True, False):
            table = OffsetMap(24 * 200, 0.9, (1, 2))
            table.begin(base, base + 200)
            for header in _headers(data)[:-3]:
                at = sum(each.size for each in _headers(data) if each.base_offset < header.base_offset)
                body = records_section(data[at : at + header.size], header, limit_bytes=1 << 20)
                assert table.add_records(body, header)
            answers.append(cleaned_packed(data, table, kept=kept, together=together))
    assert all(each == answers[0] for each in answers)
    read, stayed = answers[0][2:4]
    assert 0 < stayed < read


@pytest.mark.parametrize("flaw", ["kind", "crc", "junk", "zstd", "huge", "cut"])
def test_packed_batches_that_are_not_as_they_should_be_are_left_to_the_caller(twin, flaw):
    rows = [Record(0, NOW_MS, b"key", b"value")]
    good = bytes(build_batch(rows, codec=4))
    header = read_header(good)
    body = bytes(build_batch(rows))[61:]
    second = {
        "kind": bytes(build_batch(rows, codec=4, transactional=True)),
        "crc": good[:-1] + bytes((good[-1] ^ 1,)),
        "junk": bytes(join_batch(header, compress(4, body + b"x"))),
        "zstd": bytes(join_batch(header, b"no frame")),
        "huge": bytes(build_batch([Record(0, NOW_MS, b"key", bytes(2 << 20))], codec=4)),
        "cut": good[:-1],
    }[flaw]
    table = OffsetMap(24 * 9, 0.9, (1, 2))
    table.begin(0, 9)
    assert table.unpack(good + second, 0, len(good) + len(second)) is None
    assert table.unpack(good + good, 0, 2 * len(good)).batches == 2
