"""Members of groups on a simulated node: each with a connection of its own, as consumers have."""

import asyncio
from typing import Any, Self

from headrace.base.error_codes import ErrorCode
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_requests import heartbeat, join, leave, sync
from tests.server.node_world import Client, NodeWorld

NEWEST_JOIN, NEWEST_SYNC, NEWEST_HEARTBEAT, NEWEST_LEAVE = 9, 5, 4, 5


class GroupMember:
    """A consumer that joins when it is told to, and remembers what it was told."""

    def __init__(self, client: Client, group: str, options: dict[str, Any]) -> None:
        self.client = client
        self.group = group
        self.options = options
        self.id = ""
        self.generation = -1
        self.leads = False
        self.members: list[str] = []

    @classmethod
    async def connect(cls, world: NodeWorld, group: str, client_id: str = "c", **options: Any) -> Self:
        client = await world.connect(client_id)
        await client.ask(ask_for(6, group), 6)
        return cls(client, group, options)

    def begin_join(self, **options: Any) -> "asyncio.Future[Any]":
        return self.client.ask(
            join(self.group, self.id, **self.options | options), NEWEST_JOIN, timeout_ms=900_000
        )

    async def join(self, **options: Any) -> ErrorCode:
        """Join, after getting an id where that is asked for."""
        response = await self.begin_join(**options)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = response.member_id
            response = await self.begin_join(**options)
        return self.take(response)

    def take(self, response: Any) -> ErrorCode:
        """Remember what a JoinGroup was answered."""
        if response.error_code == 0:
            self.id, self.generation = response.member_id, response.generation_id
            self.leads = response.leader == response.member_id
            self.members = [each.member_id for each in response.members]
        return ErrorCode(response.error_code)

    def begin_sync(self, **shares: bytes) -> "asyncio.Future[Any]":
        """The leader gives every member b"share" unless told otherwise."""
        given = shares or dict.fromkeys(self.members, b"share")
        request = sync(
            self.group,
            self.id,
            self.generation,
            given,
            instance=self.options.get("instance"),
            protocol_type=self.options.get("protocol_type", "consumer"),
        )
        return self.client.ask(request, NEWEST_SYNC, timeout_ms=900_000)

    async def sync(self) -> bytes:
        response = await self.begin_sync()
        assert response.error_code == 0, ErrorCode(response.error_code)
        return bytes(response.assignment)

    async def heartbeat(self) -> ErrorCode:
        request = heartbeat(self.group, self.id, self.generation, self.options.get("instance"))
        return ErrorCode((await self.client.ask(request, NEWEST_HEARTBEAT)).error_code)

    async def leave(self) -> ErrorCode:
        response = await self.client.ask(leave(self.group, self.id), NEWEST_LEAVE)
        return ErrorCode(response.members[0].error_code)


async def stable_group(world: NodeWorld, group: str, count: int, **options: Any) -> list[GroupMember]:
    """Members that have all joined the same generation and got their share; the leader first."""
    members = [await GroupMember.connect(world, group, f"c{number}", **options) for number in range(count)]
    assert await members[0].join() is ErrorCode.NONE
    await members[0].sync()
    for number in range(1, count):
        joining = [asyncio.ensure_future(members[number].join())]
        # The others hear of it with their next heartbeat.
        await world.until(lambda: _is_rebalancing(world, group), "a rebalance")
        joining += [asyncio.ensure_future(each.join()) for each in members[:number]]
        assert await asyncio.gather(*joining) == [ErrorCode.NONE] * (number + 1)
        await asyncio.gather(*(each.sync() for each in members[: number + 1]))
    assert members[0].leads
    return members


def _is_rebalancing(world: NodeWorld, group: str) -> bool:
    shard = world.node.parts.groups.shard_for(group)
    return shard.classic.groups[group].state == "PreparingRebalance"
