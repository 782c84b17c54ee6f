"""From what a partition should become to the record that makes it so: reassignment, eligible leaders,
election.

Every change of a partition goes through `change_partition`, whoever asks for it, because the parts depend
on each other: an in-sync set that shrank may need another leader, a leader that came back may empty the set
of eligible ones, an in-sync set that grew may complete a reassignment.

A leader is taken from the in-sync set; where that is empty from the eligible leaders, which are known to
have all committed records (KIP-966); where that is empty too, the last known leader is taken back, alone
and recovering. Only where a topic allows unclean elections may any live replica lead, and then records can
be lost.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum

from headrace.base.ids import NO_LEADER, TopicId
from headrace.controller.cluster_state import ClusterState
from headrace.metadata.topics import RECOVERING, UNCHANGED_LEADER, PartitionImage, TopicImage
from headrace.wire.schemas.metadata_records import PartitionChangeRecord


class Election(Enum):
    """How far an election may go."""

    PREFERRED = "the first replica if it can lead, else as ONLINE"
    ONLINE = "keep the leader while it can lead, else another that is in sync"
    UNCLEAN = "as ONLINE, but rather any live replica than none"


def change_partition(
    cluster: ClusterState,
    topic: TopicImage,
    index: int,
    *,
    isr: Sequence[int] | None = None,
    replicas: Sequence[int] | None = None,
    removing: Sequence[int] | None = None,
    adding: Sequence[int] | None = None,
    recovery_state: int | None = None,
    directories: Mapping[int, bytes] | None = None,
    lost: Collection[int] = (),
    election: Election | None = None,
    may_lead: Callable[[int], bool] | None = None,
) -> PartitionChangeRecord | None:
    """The record that brings a partition to what is asked for, or None where that changes nothing.

    `lost` are brokers that came back without proof of a clean shutdown: whatever they had may be gone.
    `may_lead` overrides which brokers count as active.
    """
    partition = topic.partitions[index]
    draft = _PartitionChangeBuilder(
        cluster, topic, partition, election, may_lead or cluster.is_active, directories or {}
    )
    draft.isr = list(partition.isr if isr is None else isr)
    draft.replicas = list(partition.replicas if replicas is None else replicas)
    draft.removing = list(partition.removing_replicas if removing is None else removing)
    draft.adding = list(partition.adding_replicas if adding is None else adding)
    draft.complete_reassignment()
    draft.choose_eligible(lost)
    record = PartitionChangeRecord(partition_id=index, topic_id=topic.id)
    draft.elect(record)
    draft.bump_epoch_for_removed_replicas(record)
    draft.note_in_sync(record)
    draft.note_last_leader(record)
    draft.note_assignment(record)
    if recovery_state is not None and recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = recovery_state
    return None if record == PartitionChangeRecord(partition_id=index, topic_id=topic.id) else record


def election_rules(cluster: ClusterState, topic: TopicImage) -> tuple[int, bool]:
    """All of a topic that `change_partition` looks at beside the partition itself."""
    unclean = cluster.topic_config(topic.name).unclean_leader_election_enable
    return cluster.min_insync_replicas(topic), unclean


def same_change(change: PartitionChangeRecord, topic_id: TopicId, index: int) -> PartitionChangeRecord:
    """What happened to one partition, for another that is like it."""
    return PartitionChangeRecord(
        index,
        topic_id,
        change.isr,
        change.leader,
        change.replicas,
        change.removing_replicas,
        change.adding_replicas,
        change.leader_recovery_state,
        change.directories,
        change.eligible_leader_replicas,
        change.last_known_elr,
    )


class _PartitionChangeBuilder:
    """A partition on its way from one picture to the next."""

    def __init__(
        self,
        cluster: ClusterState,
        topic: TopicImage,
        partition: PartitionImage,
        election: Election | None,
        may_lead: Callable[[int], bool],
        moved: Mapping[int, bytes],
    ) -> None:
        min_isr, unclean = election_rules(cluster, topic)
        if election is None:
            election = Election.UNCLEAN if unclean else Election.ONLINE
        self.cluster = cluster
        self.old = partition
        self.election = election
        self.may_lead = may_lead
        self.moved = moved
        self.min_isr = min_isr
        self.elr_enabled = cluster.elr_enabled
        self.isr: list[int] = []
        self.replicas: list[int] = []
        self.removing: list[int] = []
        self.adding: list[int] = []
        self.elr = list(partition.elr)

    def complete_reassignment(self) -> None:
        """Once every replica that stays is in sync, those being removed go (KIP-455)."""
        if not self.removing and not self.adding:
            return
        staying = [replica for replica in self.replicas if replica not in self.removing]
        in_sync = [replica for replica in self.isr if replica not in self.removing]
        if not staying or not in_sync or not set(staying) <= set(in_sync):
            return
        self.replicas, self.isr, self.removing, self.adding = staying, in_sync, [], []

    def choose_eligible(self, lost: Collection[int]) -> None:
        """Replicas that leave a set below its minimum stay eligible: nothing is committed without them."""
        if not self.elr_enabled or len(self.isr) >= self.min_isr:
            self.elr = []
            return
        candidates = set(self.elr) | set(self.old.isr)
        self.elr = sorted(candidates - set(self.isr) - set(lost))

    def elect(self, record: PartitionChangeRecord) -> None:
        leader, clean = self._leader()
        if leader == self.old.leader:
            return
        record.leader = leader
        if not clean:
            # Only the new leader can be in sync with itself; until it has recovered nobody may join it.
            record.isr = [leader]
            self.elr = []
            if self.old.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
        elif leader in self.elr:
            self.isr = [leader]
            self.elr.remove(leader)

    def _leader(self) -> tuple[int, bool]:
        """Who shall lead, and whether it is known to have every committed record."""
        order = [self.old.leader, *self.replicas]
        if self.election is Election.PREFERRED:
            order.insert(0, self.replicas[0])
        for replica in order:
            if self._can_lead(replica) and (replica in self.isr or (not self.isr and replica in self.elr)):
                return replica, True
        last = self.old.last_known_elr
        if self.elr_enabled and not self.isr and not self.elr and len(last) == 1 and self._can_lead(last[0]):
            return last[0], False
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self._can_lead(replica):
                    return replica, False
        return NO_LEADER, True

    def _can_lead(self, replica: int) -> bool:
        return (
            replica in self.replicas
            and self.may_lead(replica)
            and self.cluster.has_online_directory(self.old, replica, self.moved.get(replica))
        )

    def bump_epoch_for_removed_replicas(self, record: PartitionChangeRecord) -> None:
        """A replica that was taken out must not go on as if it belonged: a new leader epoch fences it."""
        if record.leader == UNCHANGED_LEADER and not set(self.old.replicas) <= set(self.replicas):
            record.leader = self.old.leader

    def note_in_sync(self, record: PartitionChangeRecord) -> None:
        if tuple(self.elr) != self.old.elr:
            record.eligible_leader_replicas = self.elr
        # Without eligible leaders the last in-sync replicas are kept in the set although they are gone: else
        # nobody could be elected cleanly ever again.
        may_be_empty = self.elr_enabled
        if record.isr is None and (self.isr or may_be_empty) and tuple(self.isr) != self.old.isr:
            record.isr = self.isr

    def note_last_leader(self, record: PartitionChangeRecord) -> None:
        """Remember who led when nobody is left in sync, or who was the last in sync where nobody led; forget
        it once there is a leader again."""
        if not self.elr_enabled:
            return
        leader = self.old.leader if record.leader == UNCHANGED_LEADER else record.leader
        last = self.old.isr if self.old.leader == NO_LEADER else (self.old.leader,)
        if record.isr == [] and len(last) == 1:
            if self.old.last_known_elr != last:
                record.last_known_elr = list(last)
        elif leader != NO_LEADER and self.old.last_known_elr:
            record.last_known_elr = []

    def note_assignment(self, record: PartitionChangeRecord) -> None:
        known = dict(zip(self.old.replicas, self.old.directories, strict=False)) | dict(self.moved)
        directories = [
            known[replica] if replica in known else self.cluster.default_directory(replica)
            for replica in self.replicas
        ]
        if tuple(directories) != self.old.directories:
            record.directories = directories
        if tuple(self.replicas) != self.old.replicas:
            record.replicas = self.replicas
        if tuple(self.removing) != self.old.removing_replicas:
            record.removing_replicas = self.removing
        if tuple(self.adding) != self.old.adding_replicas:
            record.adding_replicas = self.adding
