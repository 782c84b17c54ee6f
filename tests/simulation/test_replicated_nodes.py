"""Three real nodes that replicate: a leader is killed, a disk comes back empty, replicas move and are read
from, and what was acknowledged is there.
"""

import asyncio
import errno
import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.records.batch import Record, build_batch, read_records
from headrace.records.header import batches
from headrace.replication.partition import Partition
from headrace.testing.disk import Crash
from headrace.testing.node_cluster import CONTROLLER_PORT, PORT, NodeCluster
from headrace.testing.world import World
from headrace.wire.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.server.node_world import Client, open_client

T = TopicPartition("t", 0)
SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "default.replication.factor": "3",
}


class Script:
    """A cluster, somebody who talks to it, and what was acknowledged."""

    def __init__(
        self, seed: int, *, nodes: int = 3, roles: dict[int, str] | None = None, **settings: str
    ) -> None:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        self.cluster = NodeCluster(World(seed), nodes=nodes, roles=roles, settings=SETTINGS | dotted)
        self.world = self.cluster.world
        self.network = self.world.network.attach("client", self.world.driver)
        self.acknowledged: list[bytes] = []
        self._clients: dict[int, Client] = {}

    async def client(self, node_id: int) -> Client:
        known = self._clients.get(node_id)
        if known is None or not known.is_open:
            known = await open_client(self.world.driver, self.network, f"node{node_id}", PORT)
            self._clients[node_id] = known
        return known

    async def create(self, replicas: int = 3) -> None:
        topic = CreatableTopic(name=T.topic, num_partitions=1, replication_factor=replicas)
        client = await self.client(2)
        response = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert response.topics[0].error_code == ErrorCode.NONE
        await self.cluster.until(lambda: self.leader() is not None and len(self.replicas()) == replicas)

    def replicas(self) -> dict[int, Partition]:
        found = {n: node.parts.replica_manager.get(T) for n, node in self.cluster.nodes.items()}
        return {n: partition for n, partition in found.items() if partition is not None}

    def leader(self) -> int | None:
        """Who leads in the newest epoch that any node knows, if it knows that itself."""
        images = [
            topic.partitions[0]
            for node in self.cluster.nodes.values()
            if (topic := node.image.topics_by_name.get(T.topic)) is not None and 0 in topic.partitions
        ]
        newest = max(images, key=lambda each: each.partition_epoch, default=None)
        if newest is None or newest.leader not in self.cluster.nodes:
            return None
        partition = self.replicas().get(newest.leader)
        leads = (
            partition is not None and partition.is_leader and partition.leader_epoch == newest.leader_epoch
        )
        return newest.leader if leads else None

    def in_sync(self) -> set[int]:
        leader = self.leader()
        return set() if leader is None else set(self.replicas()[leader]._in_sync)

    async def write(self, count: int) -> None:
        for _ in range(count):
            await self.write_one(b"%d" % len(self.acknowledged))

    async def write_one(self, value: bytes) -> None:
        while True:
            leader = self.leader()
            try:
                if leader is not None and await self.try_to_write(leader, value):
                    self.acknowledged.append(value)
                    return
            except OSError:
                pass
            await asyncio.sleep(0.01)

    async def try_to_write(self, leader: int, value: bytes) -> bool:
        now_ms = self.cluster.machine(leader).clock.now_ms()
        data = [PartitionProduceData(0, build_batch([Record(0, now_ms, None, value)]))]
        request = ProduceRequest(
            acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(name=T.topic, partition_data=data)]
        )
        response = await (await self.client(leader)).ask(request, 12)
        return bool(response.responses[0].partition_responses[0].error_code == ErrorCode.NONE)

    def values(self, node_id: int) -> list[bytes]:
        """What a node has of the partition, without repetitions that a retry made."""
        log = self.replicas()[node_id].local_log()
        found: list[bytes] = []
        if log.log_end_offset > log.log_start_offset:
            chunk = log.read(log.log_start_offset, max_bytes=1 << 20).chunk
            data = b"" if isinstance(chunk, bytes) else chunk.read()
            for position, header in batches(data):
                whole = memoryview(data)[position : position + header.size]
                found += [bytes(record.value or b"") for record in read_records(whole)]
        return list(dict.fromkeys(found))

    async def until_equal(self, *node_ids: int) -> None:
        def equal() -> bool:
            replicas = self.replicas()
            return set(node_ids) <= set(replicas) and all(
                self.values(node) == self.acknowledged
                and replicas[node].local_log().high_watermark == replicas[node].local_log().log_end_offset
                for node in node_ids
            )

        await self.cluster.until(equal, f"nodes {node_ids} have {len(self.acknowledged)} records")


def play(script: Script, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await script.cluster.start()
        await work()

    try:
        script.world.run(whole())
    finally:
        script.world.close()


def test_what_is_acknowledged_is_on_all_replicas_and_survives_its_leader() -> None:
    script = Script(1)

    async def work() -> None:
        await script.create()
        await script.write(5)
        await script.until_equal(1, 2, 3)
        assert script.in_sync() == {1, 2, 3}
        former = script.leader()
        assert former is not None
        script.cluster.kill(former)
        await script.write(5)
        left = {1, 2, 3} - {former}
        assert script.in_sync() == left
        await script.cluster.start(former)
        await script.cluster.until(lambda: script.in_sync() == {1, 2, 3}, "the killed one is in sync again")
        await script.write(2)
        await script.until_equal(1, 2, 3)

    play(script, work)


def test_each_leader_in_turn_loses_power() -> None:
    script = Script(2)

    async def work() -> None:
        await script.create()
        for _ in range(3):
            await script.write(4)
            former = script.leader()
            assert former is not None
            script.cluster.kill(former, Crash.POWER_CUT)
            await script.write(2)
            await script.cluster.start(former)
            await script.cluster.until(lambda: script.in_sync() == {1, 2, 3}, "all in sync")
        await script.until_equal(1, 2, 3)

    play(script, work)


def test_a_follower_that_is_gone_is_not_waited_for_after_a_while() -> None:
    script = Script(3)

    async def work() -> None:
        await script.create()
        await script.write(2)
        gone = next(n for n in (1, 2, 3) if n != script.leader())
        script.cluster.kill(gone)
        await script.write(3)
        assert gone not in script.in_sync()

    play(script, work)


def test_who_goes_and_comes_back_is_told(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(3)

    async def work() -> None:
        await script.create()
        gone = next(n for n in (1, 2, 3) if n != script.leader())
        caplog.clear()
        script.cluster.kill(gone)
        await script.cluster.until(lambda: gone not in script.in_sync(), "it is out of sync")
        await script.cluster.until(lambda: told(caplog, f"broker {gone} is fenced, "), "it is fenced")
        await script.cluster.start(gone)
        await script.cluster.until(lambda: script.in_sync() == {1, 2, 3}, "it is in sync again")
        assert told(caplog, f"broker {gone} registers in epoch ")
        assert told(caplog, f"broker {gone} is unfenced, ")
        assert told(caplog, "ISRs? expand: t-0")

    with caplog.at_level(logging.INFO, "headrace"):
        play(script, work)


def told(caplog: pytest.LogCaptureFixture, pattern: str) -> bool:
    return any(re.search(pattern, each.getMessage()) for each in caplog.records)


def test_too_few_in_sync_take_no_writes_and_lose_nothing() -> None:
    script = Script(4, nodes=4, roles={1: "controller", 2: "broker", 3: "broker", 4: "broker"})

    async def work() -> None:
        places = [script.cluster.nodes[n].addresses for n in (1, 2)]
        assert places == [[("node1", CONTROLLER_PORT)], [("node2", PORT)]], "where each says it is ready"
        await script.create()
        await script.write(3)
        leader = script.leader()
        others = [n for n in script.replicas() if n != leader]
        assert leader is not None
        for node in others:
            script.cluster.kill(node)
        await script.cluster.until(lambda: script.in_sync() == {leader}, "the leader is alone")
        client = await script.client(leader)
        assert not await script.try_to_write(leader, b"refused")
        assert client.is_open
        for node in others:
            await script.cluster.start(node)
        await script.write(2)

    play(script, work)


def test_replicas_move_to_another_broker() -> None:
    script = Script(5, nodes=4)

    async def work() -> None:
        await script.create()
        await script.write(4)
        before = set(script.replicas())
        newcomer = ({1, 2, 3, 4} - before).pop()
        leader = script.leader()
        goes = leader if leader is not None else 1
        target = [newcomer, *sorted(before - {goes})]
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(T.topic, [ReassignablePartition(0, target)])]
        )
        response = await (await script.client(newcomer)).ask(request, 1)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
        await script.cluster.until(lambda: set(script.replicas()) == set(target), "the replicas have moved")
        await script.write(3)
        await script.until_equal(*target)

    play(script, work)


def test_a_disk_that_comes_back_empty_is_filled_again() -> None:
    script = Script(6)

    async def work() -> None:
        await script.create()
        await script.write(6)
        victim = next(n for n in (1, 2, 3) if n != script.leader())
        script.cluster.kill(victim)
        await script.write(2)
        disk = script.cluster.machine(victim).disk
        folder = f"/data/{T}"
        disk.remove_tree(folder)
        await script.cluster.start(victim)
        await script.cluster.until(lambda: script.in_sync() == {1, 2, 3}, "all in sync")
        await script.until_equal(1, 2, 3)

    play(script, work)


def test_a_follower_whose_folder_fails_asks_no_further_and_is_not_waited_for() -> None:
    """Its leader kept the last place it had asked for, and took it in again with each request of its node."""
    script = Script(16, log_dirs="/data,/more", min_insync_replicas="1")

    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.until_equal(1, 2, 3)
        victim = next(n for n in (1, 2, 3) if n != script.leader())
        logs = script.cluster.nodes[victim].parts.log_manager
        folder = logs.folder_of(T)
        assert folder is not None
        logs.handle_log_dir_failure(folder, OSError(errno.EIO, "the disk is broken", folder.path))
        await script.cluster.until(lambda: victim not in script.in_sync(), "it is out of sync")
        for _ in range(30):
            await asyncio.sleep(0.1)
            assert victim not in script.in_sync()
        await script.write(2)

    play(script, work)


def test_consumers_read_from_the_replica_in_their_rack() -> None:
    script = Script(7, replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")

    async def work() -> None:
        await script.create()
        await script.write(3)
        await script.until_equal(1, 2, 3)
        leader = script.leader()
        assert leader is not None
        near = next(n for n in (1, 2, 3) if n != leader)
        request = FetchRequest(
            rack_id=f"node{near}",
            max_wait_ms=100,
            min_bytes=1,
            topics=[FetchTopic(topic=T.topic, partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])],
        )
        data = (await (await script.client(leader)).ask(request, 12)).responses[0].partitions[0]
        assert (data.preferred_read_replica, len(data.records or b"")) == (near, 0)
        data = (await (await script.client(near)).ask(request, 12)).responses[0].partitions[0]
        assert (data.error_code, data.high_watermark) == (ErrorCode.NONE, 3)
        assert len(data.records) > 0
        request.rack_id = "nowhere"
        data = (await (await script.client(leader)).ask(request, 12)).responses[0].partitions[0]
        assert (data.preferred_read_replica, len(data.records) > 0) == (-1, True)

    play(script, work)


def test_deleted_records_are_deleted_on_all_replicas_when_it_is_said() -> None:
    script = Script(8)

    async def work() -> None:
        await script.create()
        await script.write(6)
        await script.until_equal(1, 2, 3)
        leader = script.leader()
        assert leader is not None
        wish = DeleteRecordsTopic(T.topic, [DeleteRecordsPartition(0, 4)])
        request = DeleteRecordsRequest([wish], timeout_ms=10_000)
        result = (await (await script.client(leader)).ask(request, 2)).topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 4)
        assert {each.local_log().log_start_offset for each in script.replicas().values()} == {4}

    play(script, work)


def test_settings_of_each_broker_are_changed_through_itself_wherever_the_controller_is() -> None:
    script = Script(9)
    name = "leader.replication.throttled.rate"

    async def work() -> None:
        for node in (1, 2, 3):
            changed = AlterConfigsResource(4, str(node), [AlterableConfig(name, 0, str(node * 1_000))])
            response = await (await script.client(node)).ask(IncrementalAlterConfigsRequest([changed]), 1)
            assert response.responses[0].error_code == ErrorCode.NONE, response

        def known() -> list[int]:
            return [script.cluster.nodes[node].config.int(name) for node in (1, 2, 3)]

        await script.cluster.until(lambda: known() == [1_000, 2_000, 3_000])

    play(script, work)


@pytest.mark.parametrize("seed", range(10, 16))
def test_all_nodes_are_killed_at_once(seed: int) -> None:
    """What a process wrote survives it: all of it is there when the cluster is."""
    script = Script(seed)

    async def work() -> None:
        await script.create()
        await script.write(5)
        for node in (1, 2, 3):
            script.cluster.kill(node)
        await script.cluster.start()
        await script.write(3)
        await script.cluster.until(lambda: script.in_sync() == {1, 2, 3}, "all in sync")
        await script.until_equal(1, 2, 3)
        strays = [
            path for n in (1, 2, 3) for path in script.cluster.machine(n).disk.files() if "-stray" in path
        ]
        assert not strays

    play(script, work)
