"""The second half of compaction: batches rewritten without what is superseded."""

from headrace.records.kernels.compaction_parts import (
    AHEAD_FIELDS,
    AHEAD_MAX,
    TURN_BYTES,
    is_superseded,
    look_ahead,
    next_turn,
    put_varint,
    read_varint,
    see_batch,
    slot_of,
    varint_bytes,
)
from headrace.records.kernels.notation import (
    INT64_MIN,
    Bytes,
    Cells,
    Numbers,
    Room,
    Words,
    copy,
    crc32c,
    kernel,
    new_bytes,
    new_numbers,
    new_words,
    number,
    put_signed,
    signed_at,
)

# Those of `compaction.layout` as plain numbers: constants cost nothing.
_FULL, _OTHER, _BAD_CRC, _BAD_RECORD = 1, 2, 4, 5
_SLOTS, _START, _LATEST, _NOW_MS, _HORIZON_MS, _INTERVAL, _BASE, _NOTED_END = 0, 1, 5, 6, 7, 8, 9, 10
_S_OUT, _S_POSITION, _S_SINCE, _S_MAX_TIME, _S_MAX_TIME_OFFSET, _S_INDEX, _S_TIMES, _S_LAST_TIME = range(8)
_S_READ, _S_KEPT = 8, 9


@kernel
def keep_records(
    data: Bytes,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    drops_tombstones: int,
    out: Room,
    out_at: int,
    table: Words,
    params: Numbers,
) -> tuple[int, int, int, int, int]:
    """Copy the records that are their keys' last to `out`, unless that is all of them.

    How many are kept (-1: a record is bad), how many of those are delete markers that the table knows of, the
    largest timestamp of the kept, where they end in `out`, and where the records end in `data`.
    """
    ahead, hashes = new_numbers(AHEAD_MAX * AHEAD_FIELDS), new_words(2 * AHEAD_MAX)
    slots, latest = params[_SLOTS], params[_LATEST]
    noted_from, noted_end = params[_START], params[_NOTED_END]
    hashed_to = noted_from - 1 if noted_end > 0 else latest
    kept, tombstones, max_timestamp = 0, 0, -1
    run, left = at, count
    while left > 0:
        some = look_ahead(
            data, at, limit, left, base_offset, INT64_MIN, hashed_to, table, params, ahead, hashes
        )
        if some < 0:
            return -1, 0, 0, 0, 0
        for index in range(some):
            row = index * AHEAD_FIELDS
            end, offset, has_value = ahead[row], ahead[row + 2], ahead[row + 4] >= 0
            keeps = offset > latest
            if not keeps and ahead[row + 3] >= 0:
                if offset >= noted_from and offset < noted_end:
                    keeps = not is_superseded(table, slots, offset - noted_from)
                else:
                    entry = 3 * slot_of(table, slots, hashes[2 * index], hashes[2 * index + 1])
                    keeps = number(table[entry + 2]) - 1 <= offset
                keeps = keeps and (has_value or not drops_tombstones)
                if keeps and not has_value:
                    tombstones += 1
            if keeps:
                kept += 1
                max_timestamp = max(max_timestamp, base_timestamp + ahead[row + 1])
            else:
                copy(out, out_at, data, run, at - run)
                out_at += at - run
                run = end
            at = end
        left -= some
    if kept < count:
        copy(out, out_at, data, run, at - run)
        out_at += at - run
    return kept, tombstones, max_timestamp, out_at, at


@kernel
def shift_records(data: Bytes, at: int, limit: int, count: int, shift: int, out: Room, out_at: int) -> int:
    """Copy records with `shift` added to their timestamps' deltas; where they end in `out`."""
    for _ in range(count):
        size, start = read_varint(data, at, limit)
        end = start + size
        timestamp_delta, rest = read_varint(data, start + 1, end)
        delta = timestamp_delta + shift
        size = 1 + varint_bytes(delta) + end - rest
        out_at = put_varint(out, out_at, size)
        out[out_at] = data[start]
        out_at = put_varint(out, out_at + 1, delta)
        copy(out, out_at, data, rest, end - rest)
        out_at += end - rest
        at = end
    return out_at


@kernel
def note_batch(
    size: int,
    last_offset: int,
    max_timestamp: int,
    params: Numbers,
    state: Cells,
    index: Room,
    times: Room,
) -> None:
    """Take a batch that was written into the new segment's size and indexes. One without records has no
    timestamp (-1): what the time index leads to is a record."""
    relative = last_offset - params[_BASE]
    if max_timestamp > state[_S_MAX_TIME]:
        state[_S_MAX_TIME] = max_timestamp
        state[_S_MAX_TIME_OFFSET] = relative
    if state[_S_SINCE] > params[_INTERVAL] and state[_S_INDEX] + 8 <= len(index):
        put_signed(index, state[_S_INDEX], relative, 4)
        put_signed(index, state[_S_INDEX] + 4, state[_S_POSITION], 4)
        state[_S_INDEX] += 8
        if state[_S_MAX_TIME] > state[_S_LAST_TIME] and state[_S_TIMES] + 24 <= len(times):
            put_signed(times, state[_S_TIMES], state[_S_MAX_TIME], 8)
            put_signed(times, state[_S_TIMES] + 8, state[_S_MAX_TIME_OFFSET], 4)
            state[_S_TIMES] += 12
            state[_S_LAST_TIME] = state[_S_MAX_TIME]
        state[_S_SINCE] = 0
    state[_S_SINCE] += size
    state[_S_POSITION] += size
    state[_S_OUT] += size


@kernel
def _has(numbers: Numbers, wanted: int) -> bool:
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return bool(low < len(numbers) and numbers[low] == wanted)


@kernel
def _clean_batch(
    data: Bytes,
    at: int,
    size: int,
    is_wanted: int,
    out: Room,
    table: Words,
    kept_offsets: Numbers,
    params: Numbers,
    state: Cells,
) -> int:
    """Write what is to be kept of a batch behind what `out` has, and give its size; -1 for a bad record."""
    out_at = state[_S_OUT]
    base_offset = signed_at(data, at, 8)
    count = signed_at(data, at + 57, 4)
    state[_S_READ] += count
    if base_offset > params[_LATEST]:
        copy(out, out_at, data, at, size)
        state[_S_KEPT] += count
        return size
    attributes = signed_at(data, at + 21, 2)
    base_timestamp = signed_at(data, at + 27, 8)
    max_timestamp = signed_at(data, at + 35, 8)
    has_horizon = attributes & 64 != 0
    drops = has_horizon and base_timestamp <= params[_NOW_MS]
    body, limit = at + 61, at + size
    kept, tombstones, found_max, end, _ = keep_records(
        data, body, limit, count, base_offset, base_timestamp, drops, out, out_at + 61, table, params
    )
    if kept < 0:
        return -1
    state[_S_KEPT] += kept
    new_horizon = tombstones > 0 and not has_horizon
    if kept == count and not new_horizon and count > 0:
        copy(out, out_at, data, at, size)
        return size
    is_producers = kept == 0 and _has(kept_offsets, base_offset + signed_at(data, at + 23, 4))
    if kept == 0 and not (is_wanted or is_producers):
        return 0
    copy(out, out_at, data, at, 61)
    if new_horizon:
        shift = base_timestamp - params[_HORIZON_MS]
        if kept == count:
            end = shift_records(data, body, limit, count, shift, out, out_at + 61)
        else:
            used = end - out_at - 61
            scratch = new_bytes(used)
            copy(scratch, 0, out, out_at + 61, used)
            end = shift_records(scratch, 0, used, kept, shift, out, out_at + 61)
        attributes |= 64
        put_signed(out, out_at + 27, params[_HORIZON_MS], 8)
    if kept == 0:
        attributes &= ~(64 | 7)
        if not is_producers:
            attributes = 0
            max_timestamp = -1
            put_signed(out, out_at + 35, max_timestamp, 8)
            put_signed(out, out_at + 43, -1, 8)
            put_signed(out, out_at + 51, -1, 2)
            put_signed(out, out_at + 53, -1, 4)
        put_signed(out, out_at + 27, max_timestamp, 8)
        end = out_at + 61
    elif not attributes & 8:
        put_signed(out, out_at + 35, found_max, 8)
    put_signed(out, out_at + 8, end - out_at - 12, 4)
    put_signed(out, out_at + 21, attributes, 2)
    put_signed(out, out_at + 57, kept, 4)
    put_signed(out, out_at + 17, crc32c(out, out_at + 21, end), 4)
    return end - out_at


@kernel
def clean_batches(
    data: Bytes,
    at: int,
    end: int,
    last_end: int,
    others: int,
    out: Room,
    table: Words,
    kept_offsets: Numbers,
    params: Numbers,
    state: Cells,
    index: Room,
    times: Room,
) -> tuple[int, int]:
    """Write what is to be kept of whole batches to `out`; a code, and where the walk ended.

    Batches that end with one of `kept_offsets`, which are sorted, stay even if all their records go. Of the
    one that ends at `last_end` at least its place stays. `out` must have room for three times a batch: new
    timestamps take more.
    """
    turn_end = at + TURN_BYTES
    while True:
        turn_end = next_turn(at, turn_end)
        code, size = see_batch(data, at, end)
        if code >= 0:
            return code, at
        if signed_at(data, at + 21, 2) & others:
            return _OTHER, at
        out_at = state[_S_OUT]
        if len(out) - out_at < 3 * size + 61:
            return _FULL, at
        if crc32c(data, at + 21, at + size) != signed_at(data, at + 17, 4) & 0xFFFFFFFF:
            return _BAD_CRC, at
        is_wanted = 1 if at + size == last_end else 0
        written = _clean_batch(data, at, size, is_wanted, out, table, kept_offsets, params, state)
        if written < 0:
            return _BAD_RECORD, at
        if written > 0:
            last_offset = signed_at(out, out_at, 8) + signed_at(out, out_at + 23, 4)
            timed = signed_at(out, out_at + 57, 4) > 0
            max_timestamp = signed_at(out, out_at + 35, 8) if timed else -1
            note_batch(written, last_offset, max_timestamp, params, state, index, times)
        at += size
