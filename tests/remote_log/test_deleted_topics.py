"""Deleted topics leave nothing in the remote store, whoever is away, on nodes that are brokers only."""

from headrace.base.ids import TopicPartition
from headrace.log.append import AppendOrigin
from headrace.log.unified_log import UnifiedLog
from headrace.node.assembly import Node
from headrace.records.batch import Record, build_batch
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import World
from headrace.tiered.stores.folder import FolderStore
from headrace.wire.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.schemas.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)

SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}
TIERED = {"remote.storage.enable": "true", "internal.segment.bytes": "2048", "local.retention.bytes": "1"}


class BrokersApart:
    """A controller and two brokers that share a store."""

    def __init__(self, partitions: int = 3, **configs: str) -> None:
        self.places = [TopicPartition("rows", number) for number in range(partitions)]
        self.configs = TIERED | {name.replace("_", "."): value for name, value in configs.items()}
        self.world = World(1)
        self.world.machine("store").disk.make_folder("/store")
        self.store = FolderStore(self.world.machine("store").disk, "/store")
        roles = {1: "controller", 2: "broker", 3: "broker"}
        self.cluster = NodeCluster(
            self.world, nodes=3, roles=roles, settings=SETTINGS, remote_store=self.store
        )

    def brokers(self) -> dict[int, Node]:
        return {node_id: node for node_id, node in self.cluster.nodes.items() if node_id != 1}

    def logs(self) -> list[UnifiedLog]:
        found = [
            node.parts.replica_manager.get(where) for node in self.brokers().values() for where in self.places
        ]
        return [partition.log for partition in found if partition is not None and partition.log is not None]

    async def create(self) -> None:
        configs = [CreatableTopicConfig(name, value) for name, value in self.configs.items()]
        topic = CreatableTopic(
            name="rows", num_partitions=len(self.places), replication_factor=2, configs=configs
        )

        async def ask() -> CreateTopicsResponse:
            return await self.cluster.nodes[2].parts.controller.ask(
                CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            )

        response = await self.cluster.on_node(2, ask())
        assert response.topics[0].error_code == 0
        await self.cluster.until(lambda: len(self.logs()) == 2 * len(self.places))

    async def delete(self) -> None:
        async def ask() -> DeleteTopicsResponse:
            return await self.cluster.nodes[2].parts.controller.ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="rows")], timeout_ms=30_000)
            )

        response = await self.cluster.on_node(2, ask())
        assert response.responses[0].error_code == 0

    def write(self, count: int, value: bytes = b"row") -> None:
        """So many batches of some 600 bytes to each partition; three make a segment."""
        for node_id, node in self.brokers().items():
            now_ms = self.cluster.machine(node_id).clock.now_ms()
            for where in self.places:
                partition = node.parts.replica_manager.get(where)
                if partition is not None and partition.is_leader:
                    for _ in range(count):
                        batch = build_batch([Record(timestamp=now_ms, value=value + b"v" * 550)])
                        partition.append(
                            batch, now_ms=now_ms, origin=AppendOrigin.CLIENT, acks=1, api_version=9
                        )


def test_a_topic_deleted_while_a_leader_is_away_leaves_nothing() -> None:
    apart = BrokersApart()

    async def script() -> None:
        await apart.cluster.start()
        await apart.create()
        apart.write(10)
        # Followers know too what is in the store, and keep their own tails short.
        await apart.cluster.until(lambda: all(log.local_start_offset == 9 for log in apart.logs()), "tails")
        assert all(log.log_start_offset == 0 for log in apart.logs())
        apart.cluster.kill(3)
        await apart.delete()
        await apart.cluster.until(lambda: not list(apart.store.list("")), "nothing is left")

    apart.world.run(script())


def test_the_quorum_is_described_to_older_clients_with_brokers_apart() -> None:
    """Observers have directories too, which version 1 cannot tell."""
    apart = BrokersApart()

    async def ask() -> DescribeQuorumResponse:
        request = DescribeQuorumRequest([RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])])
        return await apart.cluster.nodes[2].parts.controller.ask(request, api_version=1)

    async def script() -> None:
        await apart.cluster.start()
        response = await apart.cluster.on_node(2, ask())
        assert len(response.topics[0].partitions[0].observers) == 2

    apart.world.run(script())
