"""A share group on three real nodes of which one after the other dies: every record is accepted in the end,
and none comes back that was.
"""

import asyncio
from contextlib import suppress
from typing import Any

from headrace.testing.node_cluster import PORT
from headrace.wire.schemas import share_acknowledge, share_fetch
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.share_acknowledge import ShareAcknowledgeRequest
from headrace.wire.schemas.share_fetch import ShareFetchRequest
from headrace.wire.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.server.node_world import Client, open_client
from tests.simulation.test_replicated_nodes import Script, play

ACCEPT, RELEASE = 1, 2
RECORDS = 60
DELIVERIES_MAX = 10
GROUP_RESOURCE = 32


class ShareScript(Script):
    """Members that read one partition, wherever it is led, and what they were told."""

    def __init__(self, seed: int) -> None:
        super().__init__(
            seed,
            offsets_topic_num_partitions="2",
            share_coordinator_state_topic_num_partitions="2",
            group_share_min_record_lock_duration_ms="1000",
            group_share_record_lock_duration_ms="2000",
            group_share_delivery_count_limit=str(DELIVERIES_MAX),
        )
        self.topic_id = b""
        self.accepted: set[int] = set()
        self.mistakes: list[str] = []
        self.doubtful: set[int] = set()  # accepted by a request whose reply was lost
        self.ends_at_s = 0.0

    async def begin(self) -> None:
        """Let the group begin with the first record, and have its state begun."""
        await self.create()
        client = await self.client(1)
        resource = AlterConfigsResource(
            GROUP_RESOURCE, "g", [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
        )
        assert (await client.ask(IncrementalAlterConfigsRequest([resource]), 1)).responses[0].error_code == 0
        self.topic_id = next(iter(self.cluster.nodes.values())).image.topics_by_name["t"].id
        while not await self._join():
            await asyncio.sleep(0.1)
        self.ends_at_s = self.world.driver.time() + 120

    async def _join(self) -> bool:
        client = await self.client(1)
        found = await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        coordinator = found.coordinators[0].node_id
        if coordinator < 0:
            return False
        request = ShareGroupHeartbeatRequest("g", "first", 0, subscribed_topic_names=["t"])
        reply = await (await self.client(coordinator)).ask(request, 1)
        return reply.error_code == 0 and bool(reply.assignment.topic_partitions)

    def is_open(self) -> bool:
        """Whether there is something to accept yet; a minute after the last kill there should not be."""
        return len(self.accepted | self.doubtful) < RECORDS and self.world.driver.time() < self.ends_at_s

    async def consume(self, member_id: str) -> None:
        """Read and answer until all is accepted; begin anew with every fault."""
        while self.is_open():
            leader = self.leader()
            if leader is None:
                await asyncio.sleep(0.05)
                continue
            with suppress(TimeoutError, OSError):
                client = await open_client(self.world.driver, self.network, f"node{leader}", PORT)
                await self._consume_from(client, member_id)
                client.close()
            # Whoever comes back at once would use up a record's deliveries while nobody coordinates.
            await asyncio.sleep(1)

    async def _consume_from(self, client: Client, member_id: str) -> None:
        """Until the leader has nothing to say any more, or an error."""
        epoch = 0
        while self.is_open():
            topics = [share_fetch.FetchTopic(self.topic_id, [share_fetch.FetchPartition(0)])]
            request = ShareFetchRequest(
                "g", member_id, epoch, 500, 1, 1 << 20, 7, 7, topics=topics if epoch == 0 else []
            )
            reply = await client.ask(request, 2, timeout_ms=5000)
            if reply.error_code or any(each.partitions[0].error_code for each in reply.responses):
                return
            epoch += 1
            for topic in reply.responses:
                for each in topic.partitions[0].acquired_records:
                    epoch += 1
                    if not await self._answer(client, member_id, epoch - 1, each):
                        return

    async def _answer(self, client: Client, member_id: str, epoch: int, got: Any) -> bool:
        offsets = range(got.first_offset, got.last_offset + 1)
        if self.accepted.intersection(offsets):
            self.mistakes.append(f"{sorted(self.accepted.intersection(offsets))} came back to {member_id}")
        if got.delivery_count > DELIVERIES_MAX:
            self.mistakes.append(f"{offsets} was delivered {got.delivery_count} times")
        kinds = [RELEASE if self.world.rng.random() < 0.2 else ACCEPT for _ in offsets]
        batch = share_acknowledge.AcknowledgementBatch(got.first_offset, got.last_offset, kinds)
        partition = share_acknowledge.AcknowledgePartition(0, [batch])
        topics = [share_acknowledge.AcknowledgeTopic(self.topic_id, [partition])]
        request = ShareAcknowledgeRequest("g", member_id, epoch, topics=topics)
        wanted = {at for at, kind in zip(offsets, kinds, strict=True) if kind == ACCEPT}
        self.doubtful |= wanted
        reply = await client.ask(request, 2, timeout_ms=10_000)
        self.doubtful -= wanted
        if reply.error_code or reply.responses[0].partitions[0].error_code:
            return False
        self.accepted |= wanted
        return True

    async def kill_one_after_the_other(self) -> None:
        for node_id in (1, 2, 3):
            await asyncio.sleep(1.5)
            self.cluster.kill(node_id)
            await self.cluster.until(lambda: self.leader() is not None, "somebody leads")
            await asyncio.sleep(1)
            await self.cluster.start(node_id)
            await self.cluster.until(lambda: self.in_sync() == {1, 2, 3}, "all are in sync again")


def test_nothing_is_lost_and_nothing_that_was_accepted_comes_back() -> None:
    script = ShareScript(11)

    async def work() -> None:
        await script.begin()
        killing = asyncio.ensure_future(script.kill_one_after_the_other())
        members = [asyncio.ensure_future(script.consume(each)) for each in ("a", "b", "c")]
        for _ in range(RECORDS // 10):
            await script.write(10)
            await asyncio.sleep(1)
        await asyncio.gather(*members)
        await killing

    play(script, work)
    assert script.mistakes == []
    assert script.accepted | script.doubtful == set(range(RECORDS))
