"""OpenTelemetry's MetricsData, as clients push it: read within bounds, and written.

The part of the format that Kafka's clients use is small (numbers as gauges and sums, with attributes), and
what comes is a stranger's: this reads exactly that part, checks every length against what is left, passes
over all fields that it does not know, and stops at a number of values. Histograms and summaries are passed
over; no Kafka client pushes them. The field numbers are those of
opentelemetry/proto/metrics/v1/metrics.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from headrace.base.errors import InvalidBytesError

POINTS_MAX: Final = 10_000
"""Values in one push. A Java consumer of 1,000 partitions has some 4,000."""
ATTRIBUTES_MAX: Final = 16
TEXT_MAX: Final = 249
"""Letters of a name or a value of an attribute: as many as a topic's name may have."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DELTA: Final = 1
_CUMULATIVE: Final = 2
_VARINT_BYTES_MAX: Final = 10

Attributes = tuple[tuple[str, str], ...]


class TooManyPointsError(InvalidBytesError):
    """More values than a push may have."""


class DataPoint(NamedTuple):
    """One value of a metric. A sum that only grows `is_total`; as delta it is what it grew since the last."""

    name: str
    attributes: Attributes
    value: float
    is_total: bool = False
    is_delta: bool = False


def read_metrics_data(data: bytes | memoryview) -> list[DataPoint]:
    """All values of a push. InvalidBytesError where it is none."""
    points: list[DataPoint] = []
    try:
        for number, resource_metrics in _parts(memoryview(data)):
            if number == 1:
                for inner, scope_metrics in _parts(resource_metrics):
                    if inner == 2:
                        _read_scope(scope_metrics, points)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise InvalidBytesError(f"these are no metrics of OpenTelemetry: {error}") from None
    return points


def _read_scope(view: memoryview, points: list[DataPoint]) -> None:
    for number, metric in _parts(view):
        if number == 2:
            _read_metric(metric, points)


def _read_metric(view: memoryview, points: list[DataPoint]) -> None:
    name = ""
    gauges: list[memoryview] = []
    sums: list[memoryview] = []
    for number, value in _parts(view):
        if number == 1:
            name = _text(value)
        elif number == 5:
            gauges.append(value)
        elif number == 7:
            sums.append(value)
    for gauge in gauges:
        for number, point in _parts(gauge):
            if number == 1:
                _add(points, _read_point(name, point))
    for each in sums:
        _read_sum(name, each, points)


def _read_sum(name: str, view: memoryview, points: list[DataPoint]) -> None:
    is_total = is_delta = False
    found = []
    for number, kind, value in _fields(view):
        if number == 1 and kind == _BYTES:
            found.append(_read_point(name, value))
        elif number == 2 and kind == _VARINT:
            is_delta = value == _DELTA
        elif number == 3 and kind == _VARINT:
            is_total = bool(value)
    for point in found:
        if point is not None:
            _add(points, point._replace(is_total=is_total, is_delta=is_delta))


def _add(points: list[DataPoint], point: DataPoint | None) -> None:
    if point is None:
        return
    if len(points) >= POINTS_MAX:
        raise TooManyPointsError(f"a push has at most {POINTS_MAX} values")
    points.append(point)


def _read_point(name: str, view: memoryview) -> DataPoint | None:
    """None for one that has no value: OpenTelemetry says so of what was not measured."""
    value: float | None = None
    attributes: list[tuple[str, str]] = []
    for number, kind, field in _fields(view):
        if number == 4 and kind == _FIXED64:
            [value] = struct.unpack("<d", field)
        elif number == 6 and kind == _FIXED64:
            [value] = struct.unpack("<q", field)
        elif number == 7 and kind == _BYTES and len(attributes) < ATTRIBUTES_MAX:
            attributes.append(_read_attribute(field))
    return None if value is None else DataPoint(name, tuple(sorted(attributes)), float(value))


def _read_attribute(view: memoryview) -> tuple[str, str]:
    key = text = ""
    for number, value in _parts(view):
        if number == 1:
            key = _text(value)
        elif number == 2:
            text = _any_value(value)
    return key, text


def _any_value(view: memoryview) -> str:
    for number, kind, value in _fields(view):
        if number == 1 and kind == _BYTES:
            return _text(value)
        if number == 2 and kind == _VARINT:
            return "true" if value else "false"
        if number == 3 and kind == _VARINT:
            return str(value - (1 << 64) if value >= 1 << 63 else value)
        if number == 4 and kind == _FIXED64:
            return str(struct.unpack("<d", value)[0])
    return ""


def _text(view: memoryview) -> str:
    return bytes(view).decode()[:TEXT_MAX]


def _parts(view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of a message that have a length: texts and messages."""
    for number, kind, value in _fields(view):
        if kind == _BYTES:
            yield number, value


def _fields(view: memoryview) -> Iterator[tuple[int, int, Any]]:
    """All fields of a message: number, wire type, and bytes, or the number that a varint is."""
    at, end = 0, len(view)
    while at < end:
        key, at = _varint(view, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(view, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, at = _varint(view, at)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            raise InvalidBytesError(f"there is no wire type {kind}")
        if size > end - at:
            raise InvalidBytesError(f"a field of {size} bytes where {end - at} are left")
        yield number, kind, view[at : at + size]
        at += size


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(_VARINT_BYTES_MAX):
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise InvalidBytesError("a number has more than ten bytes")


# Writing


def write_metrics_data(
    points: Iterable[DataPoint], *, resource: Mapping[str, str], start_ns: int, time_ns: int
) -> bytes:
    """What a client pushes: values of one resource, with the time that deltas began and the time of all."""
    times = b"\x11" + struct.pack("<Q", start_ns) + b"\x19" + struct.pack("<Q", time_ns)
    metrics = b"".join(_message(2, _metric(each, times)) for each in points)
    attributes = b"".join(_attribute(1, *each) for each in resource.items())
    return _message(1, _message(1, attributes) + _message(2, metrics))


def _metric(point: DataPoint, times: bytes) -> bytes:
    attributes = b"".join(_attribute(7, *each) for each in point.attributes)
    number = _message(1, attributes + times + b"\x21" + struct.pack("<d", point.value))
    if not point.is_total:
        return _message(1, point.name.encode()) + _message(5, number)
    temporality = bytes((2 << 3, _DELTA if point.is_delta else _CUMULATIVE))
    return _message(1, point.name.encode()) + _message(7, number + temporality + b"\x18\x01")


def with_resource(data: bytes, attributes: Mapping[str, str]) -> bytes:
    """A push with more attributes of its resource: who pushed it, which the client does not say itself."""
    more = b"".join(_attribute(1, *each) for each in attributes.items())
    out = []
    for number, resource_metrics in _parts(memoryview(data)):
        if number != 1:
            continue
        own, rest = b"", []
        for inner, value in _parts(resource_metrics):
            if inner == 1:
                own += bytes(value)
            else:
                rest.append(_message(inner, bytes(value)))
        out.append(_message(1, _message(1, own + more) + b"".join(rest)))
    return b"".join(out)


def _attribute(number: int, key: str, text: str) -> bytes:
    return _message(number, _message(1, key.encode()) + _message(2, _message(1, text.encode())))


def _message(number: int, data: bytes) -> bytes:
    return _written(number << 3 | _BYTES) + _written(len(data)) + data


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
