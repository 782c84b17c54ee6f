"""What must hold of a share group at every moment, whatever fails (KIP-932).

What members were told, and what leaders keep in memory, looked at after every step as a debugger would:

- every record is handed out at least once before it is done with;
- no two consumers accept the same record: who is told that it did held it when its leader took the answer;
- no record is handed out more often than the group's limit says;
- a lock ends: nobody holds a record for longer than it was given;
- what was accepted is done with for ever: no leader that comes later has it to hand out;
- where the group has a dead-letter queue, what nobody accepted has a letter there;
- where the group keeps order by key, nobody gets a record before all of its key that come before it are done
  with: neither at the leader that hands it out, nor in the eyes of its member, nor does one come back later.

A leader that was replaced and has not heard of it still hands out what it knew. Nobody's answer to that is
taken, and the last rule is not for it: it asks leaders of the epoch in which a record was accepted, and of
those that follow.

Whoever answers so late that the window has passed the record is told that all is well, as by Apache Kafka
("already archived"): it was done with without this answer, which counts for nothing here either.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.node.assembly import Node
from headrace.server.share.in_flight_batch import TERMINAL, InFlightBatch, RecordState
from headrace.server.share.share_partition import SharePartition
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.scenarios.committed_records import CommittedRecords
from headrace.testing.world import CheckFailedError

# Locks end by the tick of a wheel, and a process that stood still has others to serve first.
LATE_MS: Final = 1_000
LATE_STEPS: Final = 100

KeyOf = Callable[[bytes], bytes | None]


class Deliveries:
    """What members of the group were given and told, in one partition."""

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.delivered: set[int] = set()
        self.used_up: set[int] = set()
        """Handed out for the last time: done with, even if nobody has got them."""
        self.answers: dict[int, tuple[str, int]] = {}
        """By which member a leader is told that it accepts a record it holds, and the leader's epoch."""
        self.ever_answered: set[int] = set()
        """Accepted by somebody in the eyes of a leader, be it that the next one did not hear of it."""
        self.accepted: dict[int, str] = {}
        """By whom."""
        self.accepted_in: dict[int, int] = {}
        """The epoch of the leader that took it."""
        self.done_to = 0
        """Where the window begins, at the leader that is furthest."""
        self.newest_epoch = -1
        self.done_with: set[int] = set()
        """A leader has been, be it that nobody accepted them."""
        self.furthest: dict[bytes, dict[int, int]] = {}
        """Of each key: the last record that is handed out, by the leader's epoch."""

    def note_window(self, core: SharePartition) -> None:
        self.newest_epoch = max(self.newest_epoch, core.leader_epoch)
        self.done_to = max(self.done_to, core.start_offset)

    def note_answer(self, offset: int, core: SharePartition, batch: InFlightBatch) -> None:
        """Look at a record that a leader is not done with, for who is about to accept it. What one that was
        replaced still believes does not hide what its successor has heard.
        """
        is_last_word = offset not in self.answers or self.answers[offset][1] <= core.leader_epoch
        if batch.next_state is RecordState.ACKNOWLEDGED:
            self.ever_answered.add(offset)
            if is_last_word:
                self.answers[offset] = batch.member_id, core.leader_epoch
        elif is_last_word and offset in self.answers:
            del self.answers[offset]  # that could not be written: it is as if it had not been said

    def accept(self, member: str, member_id: str, offset: int) -> None:
        said_by, epoch = self.answers.get(offset, (None, -1))
        if said_by != member_id:
            if offset >= self.done_to:
                raise CheckFailedError(
                    f"{self.where}: {member} is told that {offset} is accepted, and no leader has taken that"
                )
            return  # too late: see this module's docstring
        if offset in self.accepted:
            raise CheckFailedError(
                f"{self.where}: {offset} is accepted by {member}, and was by {self.accepted[offset]}"
            )
        self.accepted[offset], self.accepted_in[offset] = member, epoch

    def check_order(self, core: SharePartition, key_of: Callable[[int], bytes | None]) -> None:
        """Of each key nothing is held behind what is not done with, and nothing comes back behind that."""
        first: dict[bytes, int] = {}
        for batch in core:
            offsets = range(batch.first, batch.last + 1)
            if batch.state in TERMINAL:
                self.done_with.update(offsets)
                continue
            is_held = batch.state is RecordState.ACQUIRED
            for offset in offsets:
                key = key_of(offset)
                if key is not None:
                    self._check_turn(core, offset, first.setdefault(key, offset), key, is_held=is_held)

    def _check_turn(
        self, core: SharePartition, offset: int, first: int, key: bytes, *, is_held: bool
    ) -> None:
        """`first` is the first of its key that is not done with."""
        who = f"the leader of epoch {core.leader_epoch}"
        if is_held and first < offset:
            raise CheckFailedError(
                f"{self.where}: {who} hands out {offset}, and {first} of its key is not done with"
            )
        furthest = self.furthest.setdefault(key, {})
        if any(epoch <= core.leader_epoch and last > offset for epoch, last in furthest.items()):
            raise CheckFailedError(
                f"{self.where}: {who} has {offset}, and one behind it of its key was handed out: {furthest}"
            )
        if is_held:
            furthest[core.leader_epoch] = offset


class ShareRules:
    """The rules of one run."""

    def __init__(
        self,
        cluster: NodeCluster,
        ledger: Mapping[TopicPartition, CommittedRecords],
        *,
        delivery_count_limit: int,
        key_of: KeyOf | None = None,
    ) -> None:
        self.cluster = cluster
        self._ledger = ledger
        self._key_of = key_of
        """Where order by key is kept."""
        self._keys: dict[TopicPartition, dict[int, bytes | None]] = {where: {} for where in ledger}
        self.deliveries = {where: Deliveries(where) for where in ledger}
        self._limit = delivery_count_limit
        self._ids = {f"node{node_id}": node_id for node_id in cluster.ids}
        self._late: dict[int, tuple[int, int]] = {}
        """Of each node: since when a lock is late, and in how many of its steps it was seen."""

    # --- what members see ---

    def deliver(self, member: str, where: TopicPartition, offset: int, delivery_count: int) -> None:
        if not 1 <= delivery_count <= self._limit:
            raise CheckFailedError(
                f"{where}: {member} gets {offset} for the {delivery_count}th time, the limit is {self._limit}"
            )
        found = self.deliveries[where]
        found.delivered.add(offset)
        if self._key_of is not None and offset not in found.done_with:
            for earlier in self._before(where, offset):
                if earlier >= found.done_to and earlier not in found.done_with:
                    raise CheckFailedError(
                        f"{where}: {member} gets {offset}, and {earlier} of its key is not done with"
                    )

    def accept(self, member: str, member_id: str, where: TopicPartition, offsets: Iterable[int]) -> None:
        """A member was told that its acknowledgements are taken."""
        for offset in offsets:
            self.deliveries[where].accept(member, member_id, offset)

    # --- what leaders keep ---

    def check(self) -> None:
        """After a step of the world: a step runs one process, so one node is looked at."""
        ran = self.cluster.world.scheduler.ran
        if ran is None or ran.name not in self._ids:
            return
        node_id = self._ids[ran.name]
        node = self.cluster.booted.get(node_id)  # one that stops leads on for a while
        if node is not None and self.cluster.is_alive(node_id):
            self._check_node(node_id, node)

    def _check_node(self, node_id: int, node: Node) -> None:
        now_ms, is_late = node.parts.clock.monotonic_ms(), False
        for led in node.parts.share_groups.manager:
            found = self.deliveries.get(led.partition.topic_partition)
            if found is None:
                continue
            found.note_window(led.core)
            if self._key_of is not None:
                found.check_order(led.core, partial(self._key, found.where))
            for batch in led.core:
                self._check_batch(node_id, found, led.core, batch)
                is_held = batch.state is RecordState.ACQUIRED and batch.next_state is None
                is_late |= is_held and batch.deadline_ms + LATE_MS < now_ms
        self._check_locks(node_id, now_ms, is_late)

    def _before(self, where: TopicPartition, offset: int) -> Iterator[int]:
        """The records of the same key before this one."""
        key = self._key(where, offset)
        if key is not None:
            yield from (each for each in range(offset) if self._key(where, each) == key)

    def _key(self, where: TopicPartition, offset: int) -> bytes | None:
        known = self._keys[where]
        if offset not in known and self._key_of is not None:
            value = self._ledger[where].committed.get(offset)
            if value is None:
                return None
            known[offset] = self._key_of(value)
        return known.get(offset)

    def _check_batch(
        self, node_id: int, found: Deliveries, core: SharePartition, batch: InFlightBatch
    ) -> None:
        if batch.state in TERMINAL:
            return
        if batch.delivery_count > self._limit:
            raise CheckFailedError(f"{found.where}: node {node_id} has {batch}, the limit is {self._limit}")
        for offset in range(batch.first, batch.last + 1):
            if found.accepted_in.get(offset, core.leader_epoch + 1) <= core.leader_epoch:
                raise CheckFailedError(
                    f"{found.where}: {offset} was accepted by {found.accepted[offset]}, and node {node_id} "
                    f"has it to hand out in epoch {core.leader_epoch}: {batch}"
                )
            found.note_answer(offset, core, batch)
        if batch.state is RecordState.ACQUIRED and batch.delivery_count == self._limit:
            found.used_up.update(range(batch.first, batch.last + 1))

    def _check_locks(self, node_id: int, now_ms: int, is_late: bool) -> None:
        if not is_late:
            self._late.pop(node_id, None)
            return
        since_ms, steps = self._late.get(node_id, (now_ms, 0))
        self._late[node_id] = (since_ms, steps + 1)
        if steps >= LATE_STEPS and now_ms - since_ms > LATE_MS:
            raise CheckFailedError(f"node {node_id} has a lock that ended {LATE_MS} ms ago and more")

    # --- in the end ---

    def is_empty(self, where: TopicPartition, end: int) -> bool:
        """Whether the queue is done with everything before this offset, as its leader has it."""
        for node in self.cluster.nodes.values():
            for led in node.parts.share_groups.manager:
                if led.partition.topic_partition == where and led.partition.is_leader:
                    is_newest = led.core.leader_epoch == self.deliveries[where].newest_epoch
                    return is_newest and led.core.start_offset >= end
        return False

    def check_delivered(self, committed: CommittedRecords) -> None:
        """Nothing is done with that nobody had a chance to see."""
        found = self.deliveries[committed.where]
        for offset, _ in committed.acknowledged:
            if offset not in found.delivered and offset not in found.used_up:
                raise CheckFailedError(f"{committed.where}: {offset} was never handed out")

    def check_letters(self, committed: CommittedRecords, letters: set[int]) -> None:
        """Nothing is given up in silence."""
        found = self.deliveries[committed.where]
        for offset, _ in committed.acknowledged:
            if offset not in letters and offset not in found.ever_answered:
                raise CheckFailedError(
                    f"{committed.where}: {offset} was neither accepted, nor is it in a letter"
                )
