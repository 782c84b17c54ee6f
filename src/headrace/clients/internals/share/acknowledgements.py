"""What a share consumer says of the records it got, until that is sent.

`Delivered` are the records that the program holds and has not answered for. Answers are kept by partition and
offset, and sent as ranges: one type for a run of records with the same answer.
"""

from collections.abc import Iterable

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

    def give(self, partition: TopicPartition, offset: int) -> None:
        self._open.setdefault(partition, {})[offset] = None

    @property
    def is_any_open(self) -> bool:
        """Whether the program has yet to answer for a record."""
        return any(self._open.values())

    def answer(self, partition: TopicPartition, offset: int, kind: int) -> None:
        """ClientError for a record that the program does not hold."""
        if kind == AcknowledgeType.GAP:
            raise ClientError("a gap is where there is no record: accept, release, reject or renew this one")
        if offset not in self._open.get(partition, {}):
            raise ClientError(
                f"offset {offset} of {partition} is not held here: it was not polled, or is answered for"
            )
        if kind != AcknowledgeType.RENEW:
            del self._open[partition][offset]
        self._answers.setdefault(partition, {})[offset] = int(kind)

    def answer_gap(self, partition: TopicPartition, offset: int) -> None:
        """Said without the program, which never sees it."""
        self._answers.setdefault(partition, {})[offset] = int(AcknowledgeType.GAP)

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
