"""Judges a run: what producers were told and readers saw, against what is in the topic at the end.

It knows nothing of headrace: values, partitions and offsets in, sentences out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

VALUE_BYTES = 300
TOLD_MAX = 3  # examples of each kind of fault


@dataclass(frozen=True)
class Told:
    """What one producer sent (numbers 0 to `sent`), was acknowledged, and was told to have failed.

    `tells_every_offset` is False for librdkafka, which may acknowledge a record without an offset (None). It
    does so when the answer to the record's request was lost and it learns in another way that the record is
    in the log: a later batch of the same partition succeeded, which the sequence numbers allow only then, or
    the repeated request was refused as a duplicate. Such a record must be in its partition exactly once.
    """

    name: str
    sent: int
    acknowledged: Mapping[bytes, tuple[int, int | None]]
    failed: Iterable[bytes] = ()
    tells_every_offset: bool = True


Log = Mapping[int, Sequence[tuple[int, bytes]]]
"""Offset and value of every record of each partition, in the order read."""


def check(told: Sequence[Told], log: Log, seen: Mapping[str, Log]) -> list[str]:
    """Everything that is wrong."""
    faults: list[str] = []
    for partition, records in log.items():
        faults += _check_offsets(f"partition {partition}", [offset for offset, _ in records])
    places = {value: (at, offset) for at, records in log.items() for offset, value in records}
    counts = Counter(value for records in log.values() for _, value in records)
    faults += _some("is there more than once", [value for value, count in counts.items() if count > 1])
    known = {value_of(each.name, number) for each in told for number in range(each.sent)}
    faults += _some("was never sent", [value for value in counts if value not in known])
    for producer in told:
        acknowledged = producer.acknowledged
        faults += _some("is lost", [value for value in acknowledged if value not in places])
        moved = [
            value
            for value in acknowledged
            if value in places and not _is_there(producer, value, places[value])
        ]
        differences = [f"{places[value]} instead of {acknowledged[value]}" for value in moved[:TOLD_MAX]]
        faults += _some(f"is not where it was said to be ({', '.join(differences)})", moved)
        faults += _check_order(producer, log)
    for reader, view in seen.items():
        faults += _check_view(reader, view, log)
    return faults


def _is_there(producer: Told, value: bytes, place: tuple[int, int]) -> bool:
    """Whether a record is where its producer was told."""
    partition, offset = producer.acknowledged[value]
    if offset is None and not producer.tells_every_offset:
        return partition == place[0]
    return (partition, offset) == place


def _check_offsets(where: str, offsets: Sequence[int]) -> list[str]:
    gaps = [
        (before, after) for before, after in zip([-1, *offsets], offsets, strict=False) if after != before + 1
    ]
    return [f"{where}: offset {after} follows {before}" for before, after in gaps[:TOLD_MAX]]


def _check_order(producer: Told, log: Log) -> list[str]:
    """Numbers of a partition rise by the number of partitions; only what failed may be left out."""
    faults, step, failed = [], len(log), set(producer.failed)
    prefix = producer.name.encode() + b"/"
    for partition, records in log.items():
        expected = partition
        for offset, value in records:
            if not value.startswith(prefix):
                continue
            number = int(value[len(prefix) :])
            left_out = [value_of(producer.name, each) for each in range(expected, number, step)]
            if number < expected or not failed.issuperset(left_out):
                faults.append(
                    f"{value.rstrip()!r} at {partition}/{offset} comes where number {expected} was due"
                )
            expected = number + step
    return faults[:TOLD_MAX]


def _check_view(reader: str, view: Log, log: Log) -> list[str]:
    faults = []
    for partition, records in view.items():
        where = f"reader {reader}, partition {partition}"
        faults += _check_offsets(where, [offset for offset, _ in records])
        there = dict(log[partition])
        wrong = [(offset, value) for offset, value in records if there.get(offset) != value]
        for offset, value in wrong[:TOLD_MAX]:
            now = there.get(offset, b"nothing").rstrip()
            faults.append(f"{where}: saw {value.rstrip()!r} at {offset}, where {now!r} is now")
        if len(records) < len(log[partition]):
            faults.append(f"{where}: saw {len(records)} of {len(log[partition])} records")
    return faults


def value_of(name: str, number: int) -> bytes:
    """What a producer's record is: long enough for logs to roll and disks to fill."""
    return (b"%s/%d" % (name.encode(), number)).ljust(VALUE_BYTES)


def _some(what: str, values: Sequence[bytes]) -> list[str]:
    more = f" and {len(values) - TOLD_MAX} more" if len(values) > TOLD_MAX else ""
    return (
        [f"{', '.join(repr(value.rstrip()) for value in values[:TOLD_MAX])}{more}: {what}"] if values else []
    )
