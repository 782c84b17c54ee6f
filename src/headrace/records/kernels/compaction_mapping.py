"""The first half of compaction: keys of batches into the offset map, and runs of batches noted.

Batches are walked one behind the other; a batch whose attributes have one of the bits `others` is left to the
caller, who knows codecs and transactions. Compiled kernels release the GIL for as long as a window of a
segment lasts, so that the event loop does not wait for them.
"""

from headrace.records.kernels.compaction_parts import (
    AHEAD_FIELDS,
    AHEAD_MAX,
    TURN_BYTES,
    look_ahead,
    next_turn,
    see_batch,
    slot_of,
)
from headrace.records.kernels.compaction_runs import note_run
from headrace.records.kernels.notation import (
    INT64_MAX,
    Bytes,
    Cells,
    Numbers,
    Word,
    Words,
    crc32c,
    kernel,
    new_numbers,
    new_words,
    number,
    signed_at,
    word,
)

_0: Word = 0
_1: Word = 1

# Those of `compaction.layout` as plain numbers: constants cost nothing.
_MORE, _FULL, _OTHER, _BAD_CRC, _BAD_RECORD = 0, 1, 2, 4, 5
_SLOTS, _START, _ENTRIES_MAX, _NOTED_END = 0, 1, 2, 10
_T_ENTRIES, _T_LATEST, _T_RECORDS, _T_TOMBSTONES = 0, 1, 2, 3


@kernel
def _map_records(
    data: Bytes,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    table: Words,
    params: Numbers,
    counters: Cells,
) -> int:
    """Note the last offset of each key of a batch's records; a code."""
    ahead, hashes = new_numbers(AHEAD_MAX * AHEAD_FIELDS), new_words(2 * AHEAD_MAX)
    slots, start, noted_end = params[_SLOTS], params[_START], params[_NOTED_END]
    while count > 0:
        some = look_ahead(data, at, limit, count, base_offset, start, INT64_MAX, table, params, ahead, hashes)
        if some < 0:
            return _BAD_RECORD
        for index in range(some):
            row = index * AHEAD_FIELDS
            at = ahead[row]
            offset = ahead[row + 2]
            if offset < start:
                continue
            if ahead[row + 3] >= 0:
                if counters[_T_ENTRIES] >= params[_ENTRIES_MAX]:
                    return _FULL
                low, high = hashes[2 * index], hashes[2 * index + 1]
                entry = 3 * slot_of(table, slots, low, high)
                if table[entry + 2] == _0:
                    table[entry] = low
                    table[entry + 1] = high
                    counters[_T_ENTRIES] += 1
                elif number(table[entry + 2]) <= noted_end:
                    place = number(table[entry + 2]) - 1 - start
                    table[3 * slots + (place >> 6)] |= _1 << word(place & 63)
                table[entry + 2] = word(offset + 1)
            counters[_T_RECORDS] += 1
            if ahead[row + 4] < 0:
                counters[_T_TOMBSTONES] += 1
            counters[_T_LATEST] = offset
        count -= some
    return _MORE


@kernel
def map_batch(
    data: Bytes,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    last_offset: int,
    position: int,
    size: int,
    table: Words,
    params: Numbers,
    counters: Cells,
    runs: Cells,
) -> int:
    """Put the keys of a batch's records into the table, and note it as part of a run unless `position` is
    negative; a code."""
    tombstones = counters[_T_TOMBSTONES]
    code = _map_records(data, at, limit, count, base_offset, table, params, counters)
    if code == _MORE:
        counters[_T_LATEST] = max(counters[_T_LATEST], last_offset)
        if count > 0 and base_offset >= params[_START] and position >= 0:
            tombstones = counters[_T_TOMBSTONES] - tombstones
            note_run(position, size, base_offset, last_offset + 1, count, tombstones, runs, counters)
    return code


@kernel
def map_batches(
    data: Bytes,
    at: int,
    end: int,
    others: int,
    position: int,
    table: Words,
    params: Numbers,
    counters: Cells,
    runs: Cells,
) -> tuple[int, int]:
    """Put the keys of whole batches into the table; a code, and where the walk ended. `position` is that of
    the window's first byte."""
    turn_end = at + TURN_BYTES
    while True:
        turn_end = next_turn(at, turn_end)
        code, size = see_batch(data, at, end)
        if code >= 0:
            return code, at
        base_offset = signed_at(data, at, 8)
        last_offset = base_offset + signed_at(data, at + 23, 4)
        if last_offset >= params[_START]:
            if signed_at(data, at + 21, 2) & others:
                return _OTHER, at
            if crc32c(data, at + 21, at + size) != signed_at(data, at + 17, 4) & 0xFFFFFFFF:
                return _BAD_CRC, at
            count = signed_at(data, at + 57, 4)
            code = map_batch(
                data,
                at + 61,
                at + size,
                count,
                base_offset,
                last_offset,
                position + at,
                size,
                table,
                params,
                counters,
                runs,
            )
            if code != _MORE:
                return code, at
        at += size
