"""Finding a coordinator again: whatever it was wanted for when it turned out to be gone."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.clients.errors import UnreachableError
from headrace.clients.internals.coordinator_client import CoordinatorClient, CoordinatorKind
from headrace.clients.internals.network_client import ANY_BROKER, Use
from headrace.wire.schemas.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)


class Cluster:
    """Two brokers: the first coordinates until it is killed, then the second does."""

    def __init__(self) -> None:
        self.killed: set[int] = set()
        self.metadata = SimpleNamespace(learn_endpoints=lambda endpoints: None)
        self.versions = SimpleNamespace(choose=lambda api_key: 4, supports=lambda api_key: True)

    async def find(self, node: int = ANY_BROKER, use: Use = Use.GENERAL) -> Any:
        if node in self.killed:
            raise UnreachableError(f"broker {node} is gone")
        return SimpleNamespace(versions=self.versions, ask=self._ask, node=node)

    async def _ask(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        node = 2 if 1 in self.killed else 1
        return FindCoordinatorResponse(coordinators=[Coordinator("g", node, "host", 9092)])

    async def call(self, request: Any, *, node: int, **_: Any) -> int:
        await self.find(node)
        return node


@pytest.mark.parametrize("wish", ["version_of", "supports", "ask"])
def test_a_coordinator_that_cannot_be_reached_is_looked_for_again(wish: str) -> None:
    async def script() -> None:
        cluster = Cluster()
        client = CoordinatorClient(cluster, "g", CoordinatorKind.GROUP)  # type: ignore[arg-type]
        assert (await client.channel()).node == 1
        cluster.killed.add(1)
        with pytest.raises(UnreachableError):
            await getattr(client, wish)(8)
        assert await client.ask(8) == 2

    asyncio.run(script())
