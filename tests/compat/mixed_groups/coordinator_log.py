"""What the coordinator wrote: who held which partition from when to when, and every commit, in its own order.

Both brokers keep this in `__consumer_offsets` in Kafka's record formats, so that either's log can be read
back after a run. A classic group's record is a whole generation; with KIP-848 there is a record for each step
of each member. A member that is being asked to let go of a partition still holds it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.clients.assignors.consumer_partition_assignor import decode_assignment
from headrace.wire.record_frames import decode_key, decode_value
from headrace.wire.schemas.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
)
from headrace.wire.schemas.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey

READ_SECONDS = 30.0


@dataclass(slots=True)
class Hold:
    """A partition in one member's hands. `was_put_out`: the member was no member any more."""

    partition: int
    client: str
    member: str
    start: int
    end: int | None = None
    was_put_out: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    at: int
    partition: int
    offset: int


@dataclass
class History:
    """One group. `faults` are partitions that were given to two."""

    holds: list[Hold] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    generations: set[int] = field(default_factory=set)
    conversions: int = 0
    faults: list[str] = field(default_factory=list)
    _clients: dict[str, str] = field(default_factory=dict)
    _open: dict[int, Hold] = field(default_factory=dict)
    _present: set[str] = field(default_factory=set)
    _out: dict[str, int] = field(default_factory=dict)  # former members, and since when
    _is_classic: bool | None = None

    def take_generation(self, at: int, value: GroupMetadataValue | None) -> None:
        """A classic group's record: all members and their partitions; None where it is none any more."""
        shares: dict[str, set[int]] = {}
        if value is not None:
            self._become(True)
            self.generations.add(value.generation)
            for each in value.members:
                self._clients[each.member_id] = each.client_id
                shares[each.member_id] = {place.partition for place in _decode(each.assignment)}
        self._meet(at, gone=self._present - shares.keys(), here=set(shares))
        for hold in list(self._open.values()):
            if hold.partition not in shares.get(hold.member, ()):
                self._end(hold, at, was_put_out=hold.member not in shares)
        for member, partitions in shares.items():
            self._give(at, member, partitions)

    def take_epoch(self, epoch: int) -> None:
        self._become(False)
        self.generations.add(epoch)

    def name_member(self, member: str, client: str) -> None:
        self._clients[member] = client

    def take_step(self, at: int, member: str, partitions: set[int] | None) -> None:
        """A member of a consumer group holds these now; None: it is out."""
        self._meet(
            at, gone={member} if partitions is None else set(), here=set() if partitions is None else {member}
        )
        for hold in list(self._open.values()):
            if hold.member == member and hold.partition not in (partitions or ()):
                self._end(hold, at, was_put_out=partitions is None)
        self._give(at, member, partitions or set())

    def effective_end(self, hold: Hold) -> int | None:
        """When a member had to be without the partition. A cooperative generation takes one from its owner
        and gives it to nobody: the owner then lets go, and the next generation gives it to another.
        """
        if hold.end is None or hold.was_put_out:
            return hold.end
        later = (
            each.start
            for each in self.holds
            if each.partition == hold.partition and each.member != hold.member and each.start >= hold.end
        )
        return next(later, None)

    def _meet(self, at: int, *, gone: set[str], here: set[str]) -> None:
        self._present = (self._present - gone) | here
        self._out |= dict.fromkeys(gone, at)
        for member in here:
            self._out.pop(member, None)

    def _become(self, is_classic: bool) -> None:
        self.conversions += self._is_classic not in (None, is_classic)
        self._is_classic = is_classic

    def _give(self, at: int, member: str, partitions: Iterable[int]) -> None:
        for partition in sorted(partitions):
            current = self._open.get(partition)
            if current is not None and current.member == member:
                continue
            client = self._clients.get(member, member)
            if current is not None:
                self.faults.append(
                    f"partition {partition} was given to {client} at {at} while {current.client} held it"
                )
            last = next((each for each in reversed(self.holds) if each.partition == partition), None)
            if last is not None and last.member == member and last.end == at:
                last.end, last.was_put_out = None, False  # written anew in the other protocol's form
                self._open[partition] = last
                continue
            if last is not None and last.member in self._out and not last.was_put_out:
                # It was asked to let go, and put out before it did.
                last.end, last.was_put_out = self._out[last.member], True
            self._open[partition] = hold = Hold(partition, client, member, at)
            self.holds.append(hold)

    def _end(self, hold: Hold, at: int, *, was_put_out: bool) -> None:
        hold.end, hold.was_put_out = at, was_put_out
        del self._open[hold.partition]


Written = tuple[int, bytes, bytes | None]
"""A record's time, key and value."""


def read_history(records: Iterable[Written], topic: str) -> Mapping[str, History]:
    """The history of every group, as far as it is about this topic."""
    histories: dict[str, History] = defaultdict(History)
    for at, raw_key, raw_value in records:
        key = decode_key(raw_key)
        value = decode_value(key, raw_value)
        if isinstance(key, OffsetCommitKey):
            if value is not None and key.topic == topic:
                commit = Commit(value.commit_timestamp, key.partition, value.offset)
                histories[key.group].commits.append(commit)
        elif isinstance(key, GroupMetadataKey):
            histories[key.group].take_generation(at, value)
        elif isinstance(key, ConsumerGroupMetadataKey) and value is not None:
            histories[key.group_id].take_epoch(value.epoch)
        elif isinstance(key, ConsumerGroupMemberMetadataKey) and value is not None:
            histories[key.group_id].name_member(key.member_id, value.client_id)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            held = None
            if value is not None:
                both = [*value.assigned_partitions, *value.partitions_pending_revocation]
                held = {number for each in both for number in each.partitions}
            histories[key.group_id].take_step(at, key.member_id, held)
    return histories


def written_by(bootstrap: str) -> Iterator[Written]:
    """Everything in the coordinator's log, which has one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    consumer.assign([Place(OFFSETS_TOPIC, 0, 0)])
    while True:
        message = consumer.poll(READ_SECONDS)
        assert message is not None, f"{OFFSETS_TOPIC} could not be read within {READ_SECONDS} s"
        if message.error() is not None:
            consumer.close()
            return  # the end
        yield message.timestamp()[1], message.key(), message.value()


def _decode(assignment: bytes) -> list[Place]:
    return decode_assignment(assignment) if assignment else []
