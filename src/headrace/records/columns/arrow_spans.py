"""Where each value of an Arrow column is: its bytes, and for every row where it starts and how long it is.

That is the one form in which the encoding kernel takes keys, values and headers, whatever Arrow's layout was:
binary or string, with offsets of 32 or 64 bits, of fixed size, sliced, with nulls, in views or dictionaries.
Arrow's own bytes are used in place; only views and dictionaries are copied into a plain layout first.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.records.columns.schema import arrow

# A record's lengths are 32-bit numbers, and no Kafka takes a larger one.
VALUE_BYTES_MAX: Final = 1 << 30


class ColumnSpans(NamedTuple):
    """A column as the kernels read it; a size of -1 is a null."""

    data: NDArray[np.uint8]
    at: NDArray[np.int64]
    size: NDArray[np.int64]


def no_values(count: int) -> ColumnSpans:
    """A column of nulls."""
    return ColumnSpans(np.empty(0, np.uint8), np.zeros(count, np.int64), np.full(count, -1, np.int64))


def value_spans(array: Any, name: str) -> ColumnSpans:
    """The values of a column of bytes or text; ValueError for any other."""
    pa = arrow()
    kind = array.type
    if pa.types.is_null(kind):
        return no_values(len(array))
    if pa.types.is_dictionary(kind):
        return value_spans(array.dictionary_decode(), name)
    if pa.types.is_binary_view(kind) or pa.types.is_string_view(kind):
        return value_spans(array.cast(pa.large_binary()), name)
    if pa.types.is_fixed_size_binary(kind):
        data = _bytes(array.buffers()[1])
        at = np.arange(array.offset, array.offset + len(array), dtype=np.int64) * kind.byte_width
        size = np.full(len(array), kind.byte_width, np.int64)
        is_inside = not len(array) or int(at[-1]) + kind.byte_width <= len(data)
    elif pa.types.is_binary(kind) or pa.types.is_string(kind):
        data, at, size, is_inside = _variable(array, np.int32)
    elif pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        data, at, size, is_inside = _variable(array, np.int64)
    else:
        raise ValueError(f"column {name!r} has type {kind}; records are made of binary or string")
    if not is_inside:
        raise ValueError(f"column {name!r} is not valid: its offsets leave its data")
    if len(size) and int(size.max()) > VALUE_BYTES_MAX:
        raise ValueError(
            f"column {name!r} has a value of {size.max()} bytes; a record has room for {VALUE_BYTES_MAX}"
        )
    return ColumnSpans(data, at, _with_nulls(array, size, -1))


def header_spans(array: Any) -> tuple[NDArray[np.int64], ColumnSpans, ColumnSpans]:
    """Where each row's headers start and end, then their keys and their values."""
    pa = arrow()
    kind = array.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        raise ValueError(
            f"column 'headers' has type {kind}; it must be list<struct<key: string, value: binary>>"
        )
    if array.null_count:
        array = array.fill_null([])
    ends = np.asarray(array.offsets).astype(np.int64)
    keys, values = array.values.flatten()
    if len(ends) and (int(np.diff(ends, prepend=0).min()) < 0 or int(ends[-1]) > len(keys)):
        raise ValueError("column 'headers' is not valid: its offsets leave its data")
    names = value_spans(keys, "headers.key")
    used = slice(int(ends[0]), int(ends[-1])) if len(ends) else slice(0)
    if len(names.size[used]) and int(names.size[used].min()) < 0:
        raise ValueError("column 'headers' has a header without a key")
    return ends, names, value_spans(values, "headers.value")


def timestamps_of(array: Any, default_ms: int) -> NDArray[np.int64]:
    """Milliseconds, from timestamps of any unit or plain numbers of milliseconds; the default for nulls."""
    pa = arrow()
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("ms", kind.tz), safe=False).view(pa.int64())
    elif pa.types.is_integer(kind):
        array = array.cast(pa.int64())
    else:
        raise ValueError(f"column 'timestamp' has type {kind}; it must be a timestamp or milliseconds")
    found: NDArray[np.int64] = array.fill_null(default_ms).to_numpy()
    return np.ascontiguousarray(found)


def _variable(
    array: Any, width: type[np.int32] | type[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], bool]:
    """The data, where values start, how long they are, and whether all of that is within the data."""
    _, ends, data = array.buffers()
    found = _bytes(data)
    if not len(array):
        return found, np.empty(0, np.int64), np.empty(0, np.int64), True
    at = np.frombuffer(ends, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    size = np.diff(at)
    # Offsets that never fall are all within the data if the first and the last are.
    is_inside = int(size.min()) >= 0 <= int(at[0]) and int(at[-1]) <= len(found)
    return found, at[:-1], size, is_inside


def _with_nulls(array: Any, numbers: NDArray[np.int64], null: int) -> NDArray[np.int64]:
    if array.null_count:
        numbers[array.is_null().to_numpy(zero_copy_only=False)] = null
    return numbers


def _bytes(buffer: Any) -> NDArray[np.uint8]:
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
