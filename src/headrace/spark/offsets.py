"""Offsets on the driver: which partitions there are, where they begin and end, what the options mean there.

`PartitionOffsets` asks the cluster through an administrator that is kept as long as a query runs. What it
finds is a plain mapping of partitions to offsets, which is also what checkpoints have as JSON: the
connector's `{"orders": {"0": 23}}`.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from headrace.base.ids import TopicPartition, uuid_text
from headrace.clients import OffsetSpec
from headrace.clients.errors import (
    AuthenticationError,
    NoSuchTopicError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from headrace.spark.java_patterns import java_pattern
from headrace.spark.option_values import OptionError
from headrace.spark.options import Bound, ReadOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

if TYPE_CHECKING:
    from headrace.clients import Admin

Offsets = dict[TopicPartition, int]

_OWN_PREFIX: Final = "_headrace_"  # of topics that the sink keeps for itself
_NOT_FOUND: Final = -1
_ZERO_ID: Final = uuid_text(bytes(16))  # said by brokers that know no ids


class TopicPartitions(NamedTuple):
    """The numbers of a topic's partitions: all from 0 on, where a cluster is asked."""

    numbers: Sequence[int]
    is_internal: bool
    topic_id: str | None = None
    """None where nobody says it, as brokers before Kafka 2.8."""


class PartitionOffsets:
    """Asks a cluster about the partitions that the options select."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._admin: Admin | None = None
        self._ids: dict[str, str] = {}

    @property
    def admin(self) -> "Admin":
        if self._admin is None:
            from headrace.clients import Admin  # who looks into folders needs none

            settings = {"client.id": self._options.group_id_prefix, **self._options.admin_settings}
            self._admin = Admin(settings)
        return self._admin

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # Partitions

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Of the topics that `partitions` has found, as far as they have one."""
        return self._ids

    def partitions(self, *, without_missing: bool = False) -> list[TopicPartition]:
        """All that are selected now; NoSuchTopicError for a topic that is named and not there."""
        selection = self._options.selection
        if selection.pattern is not None:
            return self._matching(selection.pattern)
        wanted = set(selection.partitions)
        names = sorted({*selection.topics, *(each.topic for each in wanted)})
        topics = self._identified(names)
        found = []
        for name in names:
            if name not in topics:
                if without_missing:
                    continue
                raise NoSuchTopicError(name)
            found += [TopicPartition(name, number) for number in topics[name].numbers]
        if not wanted:
            return found
        missing = wanted.difference(found)
        if missing and not without_missing:
            raise OptionError(f"option assign: there is no partition {min(missing)}")
        return [each for each in found if each in wanted]

    def _matching(self, pattern: str) -> list[TopicPartition]:
        matches = java_pattern(pattern).fullmatch
        return [
            TopicPartition(name, number)
            for name, topic in self._identified().items()
            if not topic.is_internal and not name.startswith(_OWN_PREFIX) and matches(name)
            for number in topic.numbers
        ]

    def _identified(self, names: Sequence[str] | None = None) -> dict[str, TopicPartitions]:
        found = self._topics(names)
        self._ids = {name: each.topic_id for name, each in found.items() if each.topic_id is not None}
        return found

    def _topics(self, names: Sequence[str] | None = None) -> dict[str, TopicPartitions]:
        """The topics of these names, or all; those that are not there are left out."""
        if names is not None:
            # A cluster may have thousands of others, and a stream asks at every trigger.
            with contextlib.suppress(NoSuchTopicError):
                described = self._insist(lambda: self.admin.describe_topics(names))
                return {
                    each.name: TopicPartitions(
                        range(len(each.partitions)), each.internal, _id_or_none(each.topic_id)
                    )
                    for each in described
                }
        listed = self._insist(lambda: self.admin.list_topics())
        return {
            each.name: TopicPartitions(range(each.partitions), each.internal, _id_or_none(each.topic_id))
            for each in listed
        }

    def _insist(self, ask: Callable[[], T]) -> T:
        """An answer, asked for again as often and as slowly as the options say."""
        for _ in range(self._options.offset_retries):
            try:
                return ask()
            except (NoSuchTopicError, AuthenticationError):  # the same again would be told the same
                raise
            except (UnreachableError, TimedOutError, RefusedError) as error:
                log.warning("asking again in %d ms: %s", self._options.offset_retry_ms, error)
                time.sleep(self._options.offset_retry_ms / 1000)
        return ask()

    # Offsets

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._at(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where reading can go to now: with isolation level read_committed, the last stable offset."""
        return self._at(dict.fromkeys(partitions, OffsetSpec.LATEST))

    def starting(self, bound: Bound, partitions: list[TopicPartition]) -> Offsets:
        """What a start means in these partitions."""
        found = self._resolve(bound, partitions, "starting")
        missing = [each for each, offset in found.items() if offset == _NOT_FOUND]
        if missing and not self._options.latest_without_match:
            raise OptionError(
                f"{min(missing)} has no record at or after the time asked for; to begin at its end, set the "
                "option startingOffsetsByTimestampStrategy to latest"
            )
        return found | self.latest(missing)

    def ending(self, bound: Bound, partitions: list[TopicPartition]) -> Offsets:
        """What an end means in these partitions; a time that none has reached yet means the end there is."""
        found = self._resolve(bound, partitions, "ending")
        return found | self.latest(each for each, offset in found.items() if offset == _NOT_FOUND)

    def _resolve(self, bound: Bound, partitions: list[TopicPartition], side: str) -> Offsets:
        if bound.place is not None:
            return self._at(dict.fromkeys(partitions, bound.place))
        if bound.time_ms is not None:
            return self._at(dict.fromkeys(partitions, bound.time_ms))
        assert bound.numbers is not None
        name = f"{side}OffsetsByTimestamp" if bound.by_time else f"{side}Offsets"
        _check_same(name, bound.numbers, partitions)
        if bound.by_time:
            return self._at(bound.numbers)
        places = {each: number for each, number in bound.numbers.items() if number < 0}
        return {**bound.numbers, **self._at(places)}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time; None where there is none."""
        found = self._at(times)
        return {each: None if offset == _NOT_FOUND else offset for each, offset in found.items()}

    def _at(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """Offsets at times or places."""
        if not times:
            return {}
        is_committed = self._options.is_committed
        found = self._insist(lambda: self.admin.list_offsets(times, is_committed=is_committed))
        return {each: found[each].offset for each in times}


def _id_or_none(text: str) -> str | None:
    return None if text == _ZERO_ID else text


def partition_offsets(options: ReadOptions) -> PartitionOffsets:
    """Of the cluster, or of the path where no cluster is named."""
    if options.history is not None:
        from headrace.spark.history.union_offsets import UnionOffsets

        return UnionOffsets(options)
    if options.has_brokers:
        return PartitionOffsets(options)
    from headrace.spark.segments.folders import FolderOffsets

    return FolderOffsets(options)


def _check_same(name: str, given: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    there, said = set(partitions), set(given)
    if there == said:
        return
    lacking = ", ".join(map(str, sorted(there - said)))
    extra = ", ".join(map(str, sorted(said - there)))
    what = [f"it lacks {lacking}"] if lacking else []
    what += [f"it has {extra}, not among what is read"] if extra else []
    raise OptionError(
        f"option {name} must name every partition that is read (-2 is earliest, -1 latest): {'; '.join(what)}"
    )


# JSON, as in checkpoints and options


def offsets_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """As the connector writes it, in order, so that equal offsets are equal texts."""
    found: dict[str, dict[str, int]] = {}
    for each in sorted(offsets):
        found.setdefault(each.topic, {})[str(each.partition)] = offsets[each]
    return found


def offsets_from_json(texts: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(number)): offset
        for topic, numbers in texts.items()
        for number, offset in numbers.items()
    }
