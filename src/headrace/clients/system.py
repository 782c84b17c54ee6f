"""A client of this machine: its network, its clock, its way to wait."""

from headrace.base.clock import SystemClock
from headrace.clients.cluster import TIMEOUT_MS, Cluster, parse_addresses
from headrace.clients.connection import World
from headrace.clients.waiting import SystemWaiter
from headrace.transport.system_network import SystemNetwork


def connect(bootstrap: str, *, client_id: str = "headrace", timeout_ms: int = TIMEOUT_MS) -> Cluster:
    """The cluster at HOST:PORT[,HOST:PORT…]; nothing is connected until something is asked."""
    world = World(SystemNetwork(), SystemClock(), SystemWaiter())
    return Cluster(parse_addresses(bootstrap), world, client_id=client_id, timeout_ms=timeout_ms)
