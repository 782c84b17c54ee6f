"""Three nodes and their ACLs under seeds: no node ever answers otherwise than the rules that it has replayed.

An old rule may count at a node until the record that takes it away is replayed there, and never after. So
each answer of each authorizer is compared, at that moment, with a plain reading of that very node's image,
while rules come and go, nodes die and return, and a client asks all of them. Principals are addresses here:
nodes and administrator are super users, the client is not.
"""

import contextlib
import random
from collections.abc import Collection
from typing import Any

import pytest

from headrace.metadata.image import MetadataImage
from headrace.security.acl import Operation, PatternType, Permission, Resource
from headrace.security.standard_authorizer import StandardAuthorizer
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.testing.node_cluster import PORT, NodeCluster
from headrace.testing.world import World
from headrace.transport.channel_builder import PlaintextChannelBuilder
from headrace.wire.schemas.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.metadata import MetadataRequest
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.security.test_standard_authorizer import model_allows
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import open_client

STEPS = 60
TOPIC, OFFSETS = "orders", "__consumer_offsets"


class Rights:
    """A cluster whose authorizers are looked over the shoulder."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World(seed)
        self._networks = {
            name: self.world.network.attach(name, self.world.driver) for name in ("admin", "client")
        }
        trusted = [f"User:10.0.0.{number}" for number in range(1, 7)]
        trusted.remove(self.principal("client"))
        self.super_users = frozenset(trusted)
        self.cluster = NodeCluster(
            self.world,
            settings={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ";".join(trusted)},
        )
        self.asked = {True: 0, False: 0}
        self.wrong: list[Any] = []

    def principal(self, machine: str) -> str:
        return f"User:{self._networks[machine].machine.address}"

    def check(self, authorizer: StandardAuthorizer, question: tuple[Any, ...], answer: bool) -> None:
        image = self._image_of(authorizer)
        expected = image is not None and model_allows(
            image.security.acls.values(),
            *question,
            super_users=self.super_users,
            allows_without_acl=False,
            with_cidr=False,
        )
        if image is not None and answer is not expected:
            self.wrong.append((question, answer, image.offset))
        if question[0] == self.principal("client"):
            self.asked[answer] += 1

    def _image_of(self, authorizer: StandardAuthorizer) -> MetadataImage | None:
        nodes = self.cluster.booted.values()
        return next((node.image for node in nodes if node.parts.authorizer is authorizer), None)

    async def ask(self, machine: str, request: Any, version: int) -> Any:
        """Of a node that runs; None where it cannot answer now."""
        node_id = self.rng.choice(sorted(self.cluster.nodes))
        with contextlib.suppress(ConnectionError, OSError):
            client = await open_client(
                self.world.driver, self._networks[machine], f"node{node_id}", PORT, machine
            )
            try:
                return await client.ask(request, version, timeout_ms=40_000)
            finally:
                client.close()
        return None

    async def script(self) -> None:
        await self.cluster.start(*self.cluster.ids)
        topic = CreatableTopic(TOPIC, 3, 3)
        made = await self.ask("admin", CreateTopicsRequest([topic], 30_000), 7)
        assert made.topics[0].error_code == 0
        # What a broker needs for itself it asks for with its own rights, wherever the controller is.
        await self.ask("admin", FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        await self.cluster.until(
            lambda: all(OFFSETS in names for names in self.topics()), "the internal topic"
        )
        for _ in range(STEPS):
            await self.step()
        assert not self.wrong

    def topics(self) -> list[Collection[str]]:
        return [node.image.topics_by_name for node in self.cluster.nodes.values()]

    async def step(self) -> None:
        what = self.rng.random()
        if what < 0.25:
            await self.ask("admin", CreateAclsRequest([self.some_rule()]), 3)
        elif what < 0.45:
            wanted = DeleteAclsFilter(
                1, None, 1, self.principal("client"), None, self.rng.choice([1, 3, 4]), 1
            )
            await self.ask("admin", DeleteAclsRequest([wanted]), 3)
        elif what < 0.5 and len(self.cluster.nodes) == 3:
            node_id = self.rng.choice(sorted(self.cluster.nodes))
            self.cluster.kill(node_id)
            await self.cluster.start(node_id)
        elif what < 0.75:
            data = [PartitionProduceData(index, batch()) for index in range(3)]
            await self.ask(
                "client", ProduceRequest(None, 1, 5_000, [TopicProduceData(TOPIC, partition_data=data)]), 9
            )
        else:
            await self.ask("client", MetadataRequest(topics=None), 12)

    def some_rule(self) -> AclCreation:
        return AclCreation(
            Resource.TOPIC,
            *self.rng.choice(
                [(TOPIC, PatternType.LITERAL), ("ord", PatternType.PREFIXED), ("*", PatternType.LITERAL)]
            ),
            self.principal("client"),
            "*",
            self.rng.choice([Operation.READ, Operation.WRITE, Operation.DESCRIBE]),
            self.rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
        )


@pytest.mark.parametrize("seed", range(3))
def test_no_answer_is_wider_than_the_image(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rights = Rights(seed)
    decide = StandardAuthorizer.allows

    def allows(self: StandardAuthorizer, *question: Any) -> bool:
        answer = decide(self, *question)
        rights.check(self, question, answer)
        return answer

    monkeypatch.setattr(StandardAuthorizer, "allows", allows)
    monkeypatch.setattr(PlaintextChannelBuilder, "principal_of", lambda _, socket: f"User:{socket.peer[0]}")
    try:
        rights.world.run(rights.script())
    finally:
        rights.world.close()
    assert min(rights.asked.values()) > 5, f"the seed asks too little: {rights.asked}"
