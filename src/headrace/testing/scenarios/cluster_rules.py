"""What must hold in a cluster at every moment, whatever fails.

Looked at after every step, in the memory of the nodes and as a debugger would:

- no two nodes lead the quorum in one epoch, and no two lead a partition in one;
- the metadata log is one log: a batch that any node has delivered is the same bytes on every other;
- an offset below any replica's high watermark has one value for ever, and no high watermark goes back;
- who leads a partition in its newest epoch has all that was acknowledged;
- nobody meets an error that nobody handles.

A step runs one process, so one node is looked at; all of them now and then, for what threads have done. What
is as it was at the last look is not judged again: a look that finds nothing new costs microseconds.
"""

from collections.abc import Iterable
from typing import Final

from headrace.base.ids import NO_EPOCH, TopicId, TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.topics import PartitionImage
from headrace.node.assembly import Node
from headrace.replication.partition import Partition
from headrace.testing.loop import SimulatedLoop
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.scenarios.committed_records import CommittedRecords
from headrace.testing.world import CheckFailedError

# Jobs of threads change files between the rounds of a process.
LOOK_AT_ALL_STEPS: Final = 50


class _Replica:
    """What was last seen of one replica: of a process, so it never outlives that."""

    __slots__ = ("committed_records", "generation", "high_watermark", "judged_epoch", "log")

    def __init__(self, committed_records: CommittedRecords | None) -> None:
        self.committed_records = committed_records
        self.judged_epoch = NO_EPOCH
        """The newest epoch in which it was seen to lead, and nobody else."""
        self.log: UnifiedLog | None = None
        self.high_watermark = self.generation = -1


class _Process:
    """What was last seen of one node's process."""

    __slots__ = ("delivered", "judged_quorum_epoch", "loop", "node", "raft", "replicas")

    def __init__(self, node: Node, loop: SimulatedLoop) -> None:
        self.node = node
        self.loop = loop
        self.raft = node.quorum.client
        self.delivered = 0
        self.judged_quorum_epoch = NO_EPOCH
        self.replicas: dict[Partition, _Replica] = {}


class ClusterRules:
    """The rules of one run, and what was promised in it so far."""

    def __init__(self, cluster: NodeCluster, partitions: Iterable[TopicPartition]) -> None:
        self.cluster = cluster
        self.committed_records = {where: CommittedRecords(where) for where in partitions}
        self._quorum_leaders: dict[int, int] = {}
        self._leaders: dict[tuple[TopicId, int, int], int] = {}
        self._newest_epoch: dict[TopicPartition, int] = {}
        self._processes: dict[int, _Process] = {}
        self._metadata: dict[int, bytes] = {}
        self._ids = {f"node{node_id}": node_id for node_id in cluster.ids}
        self._steps = 0

    def check(self) -> None:
        """After a step of the world."""
        self._steps += 1
        if self._steps % LOOK_AT_ALL_STEPS == 0:
            self.cluster.world.check_uncaught()
            for node_id in self.cluster.ids:
                self._check_node(node_id)
            return
        ran = self.cluster.world.scheduler.ran
        if ran is not None and ran.name in self._ids:
            self._check_node(self._ids[ran.name])

    def _check_node(self, node_id: int) -> None:
        process = self._process(node_id)
        if process is None:
            return
        node = process.node
        core = process.raft.core
        if core.is_leader and core.epoch != process.judged_quorum_epoch:
            self._check_quorum(node_id, core.epoch)
            process.judged_quorum_epoch = core.epoch
        if process.raft.delivered != process.delivered:
            self._check_metadata(node_id, process)
        for partition in node.parts.replica_manager:
            seen = process.replicas.get(partition)
            if seen is None:
                seen = _Replica(self.committed_records.get(partition.topic_partition))
                process.replicas[partition] = seen
            leads = partition.leader_id == node_id
            if leads and seen.judged_epoch != partition.leader_epoch:
                self._check_leader(partition, node_id)
                seen.judged_epoch = partition.leader_epoch
            committed_records, log = seen.committed_records, partition.log
            if committed_records is None or log is None or log.failure is not None:
                continue
            if (
                log.high_watermark != seen.high_watermark
                or log.generation != seen.generation
                or log is not seen.log
            ):
                committed_records.check_replica(node_id, log)
                seen.log, seen.high_watermark, seen.generation = log, log.high_watermark, log.generation
            if leads and log.log_end_offset < committed_records.end:
                self._check_end(node_id, partition, log.log_end_offset, committed_records.end)

    def _process(self, node_id: int) -> _Process | None:
        """The process of a node, if it is one that runs."""
        node, known = self.cluster.booted.get(node_id), self._processes.get(node_id)
        if known is not None and known.node is node:
            return None if known.loop.dead else known
        own = self.cluster.machine(node_id).process
        if node is None or own is None or not self.cluster.is_alive(node_id):
            return None
        known = self._processes[node_id] = _Process(node, own.loop)
        return known

    def _check_quorum(self, node_id: int, epoch: int) -> None:
        other = self._quorum_leaders.setdefault(epoch, node_id)
        if other != node_id:
            raise CheckFailedError(f"the quorum's epoch {epoch} is led by {other} and by {node_id}")

    def _check_end(self, node_id: int, partition: Partition, end: int, acknowledged: int) -> None:
        """A leader lacks what was acknowledged: it had better be one that was."""
        where = partition.topic_partition
        is_newest = partition.leader_epoch == self._newest_epoch.get(where)
        # Who comes back leads nothing yet, whatever the metadata that it has read so far says.
        if is_newest and self.cluster.nodes.get(node_id) is self.cluster.booted.get(node_id):
            raise CheckFailedError(
                f"{where}: node {node_id} leads in epoch {partition.leader_epoch} up to {end}, "
                f"acknowledged is {acknowledged}"
            )

    def _check_leader(self, partition: Partition, node_id: int) -> None:
        where, epoch = partition.topic_partition, partition.leader_epoch
        other = self._leaders.setdefault((partition.topic_id, where.partition, epoch), node_id)
        if other != node_id:
            raise CheckFailedError(f"{where}: epoch {epoch} is led by {other} and by {node_id}")

    def _check_metadata(self, node_id: int, process: _Process) -> None:
        """What was delivered since the last look is what others were delivered."""
        raft = process.raft
        end = raft.delivered
        log = raft.log.log
        first = max(process.delivered, log.log_start_offset)
        if log.failure is None and first < end:
            for header, batch in raft.log.batches_between(first, end):
                told = self._metadata.setdefault(header.base_offset, bytes(batch))
                if told != batch:
                    raise CheckFailedError(
                        f"metadata: node {node_id} has another batch at offset {header.base_offset}"
                    )
        process.delivered = end
        self._follow_epochs(process.node)

    def _follow_epochs(self, node: Node) -> None:
        for where in self.committed_records:
            image = partition_in(node, where)
            if image is not None and image.leader_epoch > self._newest_epoch.get(where, -1):
                self._newest_epoch[where] = image.leader_epoch

    # --- in the end ---

    def check_replicas(self) -> None:
        """Every replica has all that was acknowledged, once and in order."""
        for where, committed_records in self.committed_records.items():
            for node_id, node in self.cluster.nodes.items():
                partition = node.parts.replica_manager.get(where)
                if partition is not None:
                    committed_records.check_whole(node_id, partition.log)

    def all_in_sync(self) -> bool:
        """Whether all nodes are there and every replica is in sync and as long as its leader's."""
        nodes = self.cluster.nodes
        if set(nodes) != set(self.cluster.ids):
            return False
        newest = max(nodes.values(), key=lambda node: node.image.offset)
        return all(self._is_in_sync(where, partition_in(newest, where)) for where in self.committed_records)

    def _is_in_sync(self, where: TopicPartition, image: PartitionImage | None) -> bool:
        if image is None or set(image.isr) != set(image.replicas):
            return False
        ends = set()
        for node_id in image.replicas:
            partition = self.cluster.nodes[node_id].parts.replica_manager.get(where)
            if partition is None or partition.log is None or partition.leader_epoch != image.leader_epoch:
                return False
            ends |= {partition.log.log_end_offset, partition.log.high_watermark}
        return len(ends) == 1


def partition_in(node: Node, where: TopicPartition) -> PartitionImage | None:
    """A partition as a node knows it."""
    topic = node.image.topics_by_name.get(where.topic)
    return None if topic is None else topic.partitions.get(where.partition)


def is_whole(cluster: NodeCluster, node_id: int) -> bool:
    """Whether a node runs and is in sync everywhere: it has all that is committed."""
    nodes = cluster.nodes
    if node_id not in nodes:
        return False
    newest = max(nodes.values(), key=lambda node: node.image.offset)
    return all(
        node_id in image.isr
        for topic in newest.image.topics_by_name.values()
        for image in topic.partitions.values()
        if node_id in image.replicas
    )
