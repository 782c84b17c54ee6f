"""What a share consumer says of the records it got, until that is sent.

`Delivered` are the records that the program holds and has not answered for. Answers are kept by partition and
offset, and sent as ranges: one type for a run of records with the same answer.
"""

from collections.abc import Iterable, Mapping

from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError
from headrace.wire.schemas.share_fetch import AcknowledgeType

Answers = dict[TopicPartition, dict[int, int]]
"""Types by offset."""


class Delivered:
    """The records that the program was given, in order."""

    def __init__(self) -> None:
        self._open: dict[TopicPartition, dict[int, None]] = {}
        self._answers: Answers = {}

    def give(self, partition: TopicPartition, offsets: Iterable[int]) -> None:
        self._open.setdefault(partition, {}).update(dict.fromkeys(offsets))

    @property
    def is_any_open(self) -> bool:
        """Whether the program has yet to answer for a record."""
        return any(self._open.values())

    def answer(self, places: Mapping[TopicPartition, Iterable[int]], kind: int) -> None:
        """ClientError where the program does not hold one of these; then none of them is answered."""
        if kind == AcknowledgeType.GAP:
            raise ClientError("a gap is where there is no record: accept, release, reject or renew this one")
        for partition, offsets in places.items():
            held = self._open.get(partition, {})
            for offset in offsets:
                if offset not in held:
                    raise ClientError(
                        f"offset {offset} of {partition} is not held here: it was not polled, or is "
                        "answered for"
                    )
        for partition, offsets in places.items():
            self._answers.setdefault(partition, {}).update(dict.fromkeys(offsets, int(kind)))
            if kind != AcknowledgeType.RENEW:
                for offset in offsets:
                    self._open[partition].pop(offset, None)  # a table may name it twice

    def answer_gaps(self, partition: TopicPartition, offsets: Iterable[int]) -> None:
        """Said without the program, which never sees them."""
        gaps = dict.fromkeys(offsets, int(AcknowledgeType.GAP))
        if gaps:
            self._answers.setdefault(partition, {}).update(gaps)

    def release_undelivered(self, partition: TopicPartition, offset: int) -> None:
        """A record that the program is not given."""
        self._answers.setdefault(partition, {})[offset] = int(AcknowledgeType.RELEASE)

    def answer_all(self, kind: AcknowledgeType) -> None:
        """The same for all that are open."""
        for partition, offsets in self._open.items():
            self._answers.setdefault(partition, {}).update(dict.fromkeys(offsets, int(kind)))
        self._open.clear()

    def take(self, partitions: Iterable[TopicPartition]) -> Answers:
        """What is to be sent of these partitions; it is the caller's from now on."""
        return {each: self._answers.pop(each) for each in partitions if self._answers.get(each)}

    @property
    def answered(self) -> set[TopicPartition]:
        """The partitions of which there is something to send."""
        return {partition for partition, answers in self._answers.items() if answers}


def ranges_of(answers: dict[int, int]) -> list[tuple[int, int, list[int]]]:
    """First and last offset and the type, for each run of offsets with one answer and no hole."""
    found: list[tuple[int, int, list[int]]] = []
    for offset, kind in sorted(answers.items()):
        if found and found[-1][1] == offset - 1 and found[-1][2] == [kind]:
            found[-1] = (found[-1][0], offset, [kind])
        else:
            found.append((offset, offset, [kind]))
    return found
