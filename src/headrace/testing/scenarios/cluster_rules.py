"""What must hold in a cluster at every moment, whatever fails.

Looked at after every step, in the memory of the nodes and as a debugger would:

- no two nodes lead the quorum in one epoch, and no two lead a partition in one;
- the metadata log is one log: a batch that any node has delivered is the same bytes on every other;
- an offset below any replica's high watermark has one value for ever, and no high watermark goes back;
- who leads a partition in its newest epoch has all that was acknowledged;
- nobody meets an error that nobody handles.

A step runs one process, so one node is looked at; all of them now and then, for what threads have done.
"""

from collections.abc import Iterable
from typing import Final

from headrace.base.ids import TopicId, TopicPartition
from headrace.metadata.topics import PartitionImage
from headrace.node.assembly import Node
from headrace.replication.partition import Partition
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.scenarios.replica_promises import Promises
from headrace.testing.world import CheckFailedError

# Jobs of threads change files between the rounds of a process.
LOOK_AT_ALL_STEPS: Final = 50


class ClusterRules:
    """The rules of one run, and what was promised in it so far."""

    def __init__(self, cluster: NodeCluster, partitions: Iterable[TopicPartition]) -> None:
        self.cluster = cluster
        self.promises = {where: Promises(where) for where in partitions}
        self._quorum_leaders: dict[int, int] = {}
        self._leaders: dict[tuple[TopicId, int, int], int] = {}
        self._newest_epoch: dict[TopicPartition, int] = {}
        self._delivered: dict[int, tuple[Node, int]] = {}
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
        node = self.cluster.booted.get(node_id)
        if node is None or not self.cluster.is_alive(node_id):
            return
        self._check_quorum(node_id, node)
        self._check_metadata(node_id, node)
        for partition in node.parts.replicas:
            where = partition.topic_partition
            if partition.is_leader:
                self._check_leader(partition, node_id)
            promises = self.promises.get(where)
            log = partition.log
            if promises is None or log is None or log.failure is not None:
                continue
            promises.check_replica(node_id, log)
            is_newest = partition.leader_epoch == self._newest_epoch.get(where)
            # Who comes back leads nothing yet, whatever the metadata that it has read so far says.
            leads = partition.is_leader and is_newest and self.cluster.nodes.get(node_id) is node
            if leads and log.log_end_offset < promises.end:
                raise CheckFailedError(
                    f"{where}: node {node_id} leads in epoch {partition.leader_epoch} up to "
                    f"{log.log_end_offset}, acknowledged is {promises.end}"
                )

    def _check_quorum(self, node_id: int, node: Node) -> None:
        core = node.quorum.driver.core
        if core.is_leader:
            other = self._quorum_leaders.setdefault(core.epoch, node_id)
            if other != node_id:
                raise CheckFailedError(f"the quorum's epoch {core.epoch} is led by {other} and by {node_id}")

    def _check_leader(self, partition: Partition, node_id: int) -> None:
        where, epoch = partition.topic_partition, partition.leader_epoch
        other = self._leaders.setdefault((partition.topic_id, where.partition, epoch), node_id)
        if other != node_id:
            raise CheckFailedError(f"{where}: epoch {epoch} is led by {other} and by {node_id}")

    def _check_metadata(self, node_id: int, node: Node) -> None:
        """What was delivered since the last look is what others were delivered."""
        driver = node.quorum.driver
        end = driver.delivered
        known = self._delivered.get(node_id)
        since = known[1] if known is not None and known[0] is node else 0
        if end == since:
            return
        log = driver.log.log
        first = max(since, log.log_start_offset)
        if log.failure is None and first < end:
            for header, batch in driver.log.batches_between(first, end):
                told = self._metadata.setdefault(header.base_offset, bytes(batch))
                if told != batch:
                    raise CheckFailedError(
                        f"metadata: node {node_id} has another batch at offset {header.base_offset}"
                    )
        self._delivered[node_id] = (node, end)
        self._follow_epochs(node)

    def _follow_epochs(self, node: Node) -> None:
        for where in self.promises:
            image = partition_in(node, where)
            if image is not None and image.leader_epoch > self._newest_epoch.get(where, -1):
                self._newest_epoch[where] = image.leader_epoch

    # --- in the end ---

    def check_replicas(self) -> None:
        """Every replica has all that was acknowledged, once and in order."""
        for where, promises in self.promises.items():
            for node_id, node in self.cluster.nodes.items():
                partition = node.parts.replicas.get(where)
                if partition is not None:
                    promises.check_whole(node_id, partition.log)

    def all_in_sync(self) -> bool:
        """Whether all nodes are there and every replica is in sync and as long as its leader's."""
        nodes = self.cluster.nodes
        if set(nodes) != set(self.cluster.ids):
            return False
        newest = max(nodes.values(), key=lambda node: node.image.offset)
        return all(self._is_in_sync(where, partition_in(newest, where)) for where in self.promises)

    def _is_in_sync(self, where: TopicPartition, image: PartitionImage | None) -> bool:
        if image is None or set(image.isr) != set(image.replicas):
            return False
        ends = set()
        for node_id in image.replicas:
            partition = self.cluster.nodes[node_id].parts.replicas.get(where)
            if partition is None or partition.log is None or partition.leader_epoch != image.leader_epoch:
                return False
            ends |= {partition.log.log_end_offset, partition.log.high_watermark}
        return len(ends) == 1


def partition_in(node: Node, where: TopicPartition) -> PartitionImage | None:
    """A partition as a node knows it."""
    topic = node.image.topics_by_name.get(where.topic)
    return None if topic is None else topic.partitions.get(where.partition)


def others_are_whole(cluster: NodeCluster, node_id: int) -> bool:
    """Whether everybody else runs and is in sync everywhere: then a disk may lose what was not synced."""
    nodes = cluster.nodes
    others = set(cluster.ids) - {node_id}
    if not others <= set(nodes):
        return False
    newest = max(nodes.values(), key=lambda node: node.image.offset)
    return all(
        set(image.isr) >= set(image.replicas) - {node_id}
        for topic in newest.image.topics_by_name.values()
        for image in topic.partitions.values()
    )
