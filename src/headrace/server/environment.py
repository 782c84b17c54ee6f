"""What a node gets from outside: an event loop, the time, a disk, the network and chance, and with them the
memory that its connections share.

Every part of the node takes these from here and makes none of them itself, so a simulator runs the very same
node on its own.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.clock import Clock
from headrace.log.disk import Disk
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """A node's surroundings. All of a node's state lives on `loop`."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    disk: Disk
    network: Network
    rng: random.Random
    memory: ReceiveMemory
    channel_builder: Callable[[str], ChannelBuilder] = lambda listener: PLAINTEXT
    """How connections of a listener are made, by its name."""
