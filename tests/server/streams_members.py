"""Members of streams groups on a simulated node: each with a connection of its own, as threads have."""

from typing import Any, Self

from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from tests.coordinators.streams.streams_world import topology
from tests.server.node_world import Client, NodeWorld

NOTHING: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


class StreamsMember:
    """A thread that does what it is told, and remembers what it was told."""

    def __init__(self, client: Client, group: str, member_id: str) -> None:
        self.client = client
        self.group = group
        self.id = member_id
        self.epoch = 0
        self.active: list[TaskIds] = []

    @classmethod
    async def connect(cls, world: NodeWorld, group: str = "g", member_id: str = "m1") -> Self:
        client = await world.connect()
        await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 6)
        return cls(client, group, member_id)

    async def join(self, text: str = "in", **fields: Any) -> StreamsGroupHeartbeatResponse:
        """With a topology as `streams_world` writes it."""
        said = {
            "topology": topology(text),
            "process_id": f"process of {self.id}",
            "rebalance_timeout_ms": 60_000,
        }
        return await self.ask(0, **(said | NOTHING | fields))

    async def heartbeat(self) -> StreamsGroupHeartbeatResponse:
        return await self.ask(self.epoch, active_tasks=self.active, standby_tasks=[], warmup_tasks=[])

    async def ask(self, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(self.group, self.id, epoch, **fields)
        reply: StreamsGroupHeartbeatResponse = await self.client.ask(request, 0)
        if reply.error_code == 0:
            self.epoch = reply.member_epoch
            if reply.active_tasks is not None:
                self.active = reply.active_tasks
        return reply
