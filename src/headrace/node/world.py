"""What a node gets from outside: an event loop, the time, a disk, the network and chance, and with them the
memory that its connections share.

Every part of the node takes these from here and makes none of them itself, so a simulator runs the very same
node on its own.
"""

import asyncio
import random
from dataclasses import dataclass

from headrace.base.clock import Clock
from headrace.log.disk import Disk
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory


@dataclass(frozen=True, slots=True)
class World:
    """A node's surroundings. All of a node's state lives on `loop`."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    disk: Disk
    network: Network
    rng: random.Random
    memory: ReceiveMemory
