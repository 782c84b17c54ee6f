"""When several nodes are one cluster: each of them tells clients of all of them.

A node is ready when the controller has let it in and it has heard so. The others hear it a moment later, and
until then a client that asks one of those finds fewer brokers than there are.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from headrace.clients.addresses import parse_addresses
from headrace.clients.channel import Channel
from headrace.clients.errors import ClientError
from headrace.clients.world import World, system_world
from headrace.transport.backoff import Backoff
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.metadata import MetadataRequest

PATIENCE_S: Final = 30.0
"""A node that dies meanwhile, or that talks to nobody it does not know, holds nothing up for longer."""
_PAUSE_S: Final = 0.02
_ASK_MS: Final = 5_000


async def until_all_know_all(addresses: Sequence[str]) -> None:
    """Return when every node names as many brokers as there are addresses, or patience is at its end."""
    world = system_world(asyncio.get_running_loop())
    memory = ReceiveMemory(world.loop)
    asking = [
        world.loop.create_task(_until_it_knows(_channel(world, memory, host, port), len(addresses)))
        for host, port in parse_addresses(addresses)
    ]
    await asyncio.wait(asking, timeout=PATIENCE_S)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


def _channel(world: World, memory: ReceiveMemory, host: str, port: int) -> Channel:
    return Channel(
        world,
        host,
        port,
        memory=memory,
        client_id="headrace-start",
        backoff=Backoff(20, 500, world.rng),
        setup_ms=_ASK_MS,
        request_ms=_ASK_MS,
    )


async def _until_it_knows(channel: Channel, count: int) -> None:
    try:
        while await _brokers_known(channel) < count:
            await asyncio.sleep(_PAUSE_S)
    finally:
        channel.close()


async def _brokers_known(channel: Channel) -> int:
    try:
        return len((await channel.ask(MetadataRequest(topics=[]))).brokers)
    except ClientError:
        return 0
