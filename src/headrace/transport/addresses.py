"""Hosts and ports as text, and what a host's name may stand for."""

from typing import Final

# Other loopback addresses of the same name: a node may listen on one of them alone.
_SAME_HOST: Final = {"localhost": ("127.0.0.1", "::1")}


def hosts_of(name: str) -> tuple[str, ...]:
    """What to try for a host's name, in order."""
    return _SAME_HOST.get(name, (name,))


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
