"""A random walk of two members through a classic group. The same steps for every broker.

Two and not more: when a leader goes and several are left, who leads next is chance in Kafka.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import commit, heartbeat, join, leave, sync

SEEDS = 6
STEPS = 60
SETTLE_MS = 250
"""After which a request that was not answered waits for the other member."""


@dataclass
class Walker:
    """A member as it sees itself."""

    name: str
    instance: str | None = None
    id: str = ""
    generation: int = -1
    leads: bool = False
    members: list[str] = field(default_factory=list)
    protocols: list[str] = field(default_factory=lambda: ["range"])
    act: str = ""
    asked: "asyncio.Future[Any] | None" = None


async def script(talk: Talk) -> None:
    await ready(talk)
    for seed in range(SEEDS):
        talk.title(f"walk {seed}")
        await talk.topic(f"walked{seed}")
        static = "seat" if seed % 2 else None
        walk = Walk(talk, random.Random(seed), seed, [Walker("a"), Walker("b", static)])
        for number in range(STEPS):
            await walk.step(number)


class Walk:
    """One group and its members."""

    def __init__(self, talk: Talk, rng: random.Random, seed: int, walkers: list[Walker]) -> None:
        self.talk = talk
        self.rng = rng
        self.group = talk.name(f"walk{seed}")
        self.topic = talk.name(f"walked{seed}")
        self.walkers = walkers
        self.ids = 0

    async def step(self, number: int) -> None:
        walker = self.rng.choice(self.walkers)
        acts = ("join", "join otherwise", "sync", "heartbeat", "old heartbeat", "leave", "commit", "describe")
        (act,) = self.rng.choices(acts, (10, 1.5, 6, 3, 1, 1, 2, 2))
        chance = self.rng.random()
        if act == "describe":
            await self.talk.ask(f"{number} describe", DescribeGroupsRequest([self.group]), 6, unordered=True)
        elif walker.asked is None:
            walker.act = act
            client = f"{self.group}-{walker.name}"
            walker.asked = await self.talk.begin(*self.request(walker, act, chance, number), client=client)
            await self.talk.pass_time(SETTLE_MS)
            if not walker.asked.done():
                self.talk.lines.append(f"{number} {walker.name} {act}: waits")
        for each in self.walkers:
            if each.asked is not None and each.asked.done():
                self.hear(number, each, each.asked.result())

    def request(self, walker: Walker, act: str, chance: float, number: int) -> tuple[Any, int]:
        if act in ("join", "join otherwise"):
            if act == "join otherwise":
                walker.protocols = ["range", "x"] if walker.protocols == ["range"] else ["range"]
            if chance < 0.1:
                walker.id = ""
            options: dict[str, Any] = {"protocols": walker.protocols, "session_ms": 60_000}
            return join(self.group, walker.id, instance=walker.instance, **options), 9
        if act == "sync":
            in_order = sorted(walker.members, key=lambda each: self.talk._names.get(each, ""))
            shares = {each: b"%d" % at for at, each in enumerate(in_order)} if walker.leads else None
            return sync(self.group, walker.id, walker.generation, shares, instance=walker.instance), 5
        if act in ("heartbeat", "old heartbeat"):
            generation = walker.generation - (act == "old heartbeat")
            return heartbeat(self.group, walker.id, generation, walker.instance), 4
        if act == "leave":
            return leave(self.group, (walker.id, walker.instance)), 5
        who: dict[str, Any] = {"member": walker.id if chance < 0.8 else "", "instance": walker.instance}
        return commit(self.group, self.topic, {0: number}, generation=walker.generation, **who), 9

    def hear(self, number: int, walker: Walker, reply: Any) -> None:
        walker.asked = None
        if walker.act.startswith("join"):
            self.take_join(walker, reply)
        elif getattr(reply, "error_code", 0) == ErrorCode.UNKNOWN_MEMBER_ID:
            walker.id = ""
        self.talk.lines.append(f"{number} {walker.name} {walker.act}: {self.talk._show(reply, True)}")

    def take_join(self, walker: Walker, reply: Any) -> None:
        if reply.member_id and reply.member_id not in self.talk._names:
            self.ids += 1
            self.talk.know(reply.member_id, f"<{walker.name}{self.ids}>")
        if reply.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            walker.id, walker.generation = reply.member_id, reply.generation_id
            walker.leads = reply.leader == reply.member_id
            walker.members = [each.member_id for each in reply.members]
        else:
            walker.id, walker.generation = "", -1
