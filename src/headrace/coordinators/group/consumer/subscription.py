"""What a consumer group subscribes to: topics by pattern, and what it must know of its topics.

Patterns follow RE2's rules: linear in the length of a name whatever the pattern is. Python's own `re`
backtracks, so one member could stop the node with a pattern; it must not be used here. RE2 is loaded with the
first pattern, since most nodes never see one.

A pattern finds the topics that the member may describe whose heartbeat has it looked at, as in Kafka: nobody
learns the names of others by it. Where nobody asks (a member is gone) what was found before stays.

Of a topic a group must know how many partitions it has, and in which racks their replicas are. A hash stands
for all of that in the group's record (KIP-1101): when it changes, so must the assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import TopicImage

Racks = tuple[frozenset[str], ...]
MayDescribe = Callable[[str], bool]
"""Whether somebody may know of a topic of this name."""

# Groups use few patterns; each compiled one takes some kilobytes.
COMPILED_MAX: Final = 256


def describes_all(name: str) -> bool:
    """There is no authorizer: everybody may know of everything."""
    return True


def matching_topics(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the pattern matches from end to end. Also used for transactional ids."""
    matches = _compiled(pattern)
    return frozenset(name for name in names if matches(name))


def check_regular_expression(pattern: str) -> None:
    """ApiError with INVALID_REGULAR_EXPRESSION where RE2 cannot read it."""
    _compiled(pattern)


RE2J_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
}
"""What Kafka's RE2 for Java says where RE2 says something else."""


def _in_kafkas_words(reason: str) -> str:
    reason = reason.partition(":")[0]
    return RE2J_WORDS.get(reason, reason)


@lru_cache(COMPILED_MAX)
def _compiled(pattern: str) -> Callable[[str], object]:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Any = re2.compile(pattern, options=options)  # type: ignore[no-untyped-call]
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else ""
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: "
            f"{_in_kafkas_words(reason)}.",
        ) from None
    matches: Callable[[str], object] = compiled.fullmatch
    return matches


def partition_racks(image: MetadataImage, topic: TopicImage) -> Racks:
    """The racks that hold a replica, for each partition in order; none where brokers have no racks."""
    racks = {node_id: broker.rack for node_id, broker in image.brokers.items() if broker.rack}
    if not racks:
        return (frozenset(),) * len(topic.partitions)
    return tuple(
        frozenset(racks[node_id] for node_id in topic.partitions[index].replicas if node_id in racks)
        for index in sorted(topic.partitions)
    )


def metadata_hash(image: MetadataImage, names: Iterable[str]) -> int:
    """A signed 64-bit number that differs when ids, partitions or racks of these topics do; 0 without any."""
    there = [(name, image.topics_by_name[name]) for name in sorted(names) if name in image.topics_by_name]
    if not there:
        return 0
    digest = blake2b(digest_size=8)
    for name, topic in there:
        digest.update(b"%b\0%b%d\0" % (name.encode(), topic.id, len(topic.partitions)))
        for racks in partition_racks(image, topic):
            digest.update("\1".join(sorted(racks)).encode() + b"\0")
    return int.from_bytes(digest.digest(), "big", signed=True)
