"""When several nodes are one cluster: each of them tells clients of all of them.

A node is ready when the controller has let it in and it has heard so. The others hear it a moment later, and
until then a client that asks one of those finds fewer brokers than there are.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.clients.config import ADMIN, ClientConfig, parse_addresses
from headrace.clients.errors import ClientError
from headrace.clients.internals.broker_channel import BrokerChannel
from headrace.clients.internals.channel_builder import channel_builder_of
from headrace.clients.internals.environment import ClientEnvironment, system_environment
from headrace.transport.backoff import Backoff
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.metadata import MetadataRequest

PATIENCE_S: Final = 30.0
"""A node that dies meanwhile, or that talks to nobody it does not know, holds nothing up for longer."""
_PAUSE_S: Final = 0.02
_ASK_MS: Final = 5_000


async def until_all_know_all(addresses: Sequence[str], settings: Mapping[str, str]) -> None:
    """Return when every node names as many brokers as there are addresses, or patience is at its end. The
    `settings` are those of a client that may ask them.
    """
    config = ClientConfig(ADMIN, {"bootstrap.servers": ",".join(addresses), **settings})
    environment = system_environment(asyncio.get_running_loop())
    memory = ReceiveMemory(environment.loop)
    asking = [
        environment.loop.create_task(
            _until_it_knows(_channel(environment, memory, host, port, config), len(addresses))
        )
        for host, port in parse_addresses(addresses)
    ]
    await asyncio.wait(asking, timeout=PATIENCE_S)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


def _channel(
    environment: ClientEnvironment, memory: ReceiveMemory, host: str, port: int, config: ClientConfig
) -> BrokerChannel:
    return BrokerChannel(
        environment,
        host,
        port,
        memory=memory,
        client_id="headrace-start",
        backoff=Backoff(20, 500, environment.rng),
        setup_ms=_ASK_MS,
        request_ms=_ASK_MS,
        channel_builder=channel_builder_of(config),
    )


async def _until_it_knows(channel: BrokerChannel, count: int) -> None:
    try:
        while await _brokers_known(channel) < count:
            await asyncio.sleep(_PAUSE_S)
    finally:
        channel.close()


async def _brokers_known(channel: BrokerChannel) -> int:
    try:
        return len((await channel.ask(MetadataRequest(topics=[]))).brokers)
    except ClientError:
        return 0
