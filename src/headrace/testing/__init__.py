"""The deterministic world in which the real node runs: time, network, disk and chance under one seed.

For tests of programs that use Kafka, `Cluster` is a real broker inside the test.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    """`Cluster` is loaded at first use: the simulator's parts do not need the whole node."""
    if name == "Cluster":
        from headrace.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
