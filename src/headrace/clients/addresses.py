"""Addresses of brokers as people write them."""

from collections.abc import Iterable
from typing import Final

from headrace.clients.errors import ClientError

DEFAULT_PORT: Final = 9092


def parse_addresses(given: str | Iterable[str]) -> list[tuple[str, int]]:
    """HOST:PORT,HOST:PORT… as pairs; a missing port is Kafka's. ClientError for anything else."""
    items = given.split(",") if isinstance(given, str) else given
    addresses = []
    for item in filter(None, (part.strip() for part in items)):
        host, separator, port = item.rpartition(":")
        if not separator or item.endswith("]"):
            host, port = item, str(DEFAULT_PORT)
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ClientError(f"{item!r} is not an address: give HOST:PORT, as in 127.0.0.1:9092")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ClientError("no address of a broker is given: give HOST:PORT, as in 127.0.0.1:9092")
    return addresses
