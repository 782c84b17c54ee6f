"""The assignors of classic groups: range, roundrobin, sticky and cooperative-sticky, as in Java's client.

`make_assignor` knows them by their names and by the class names that Java's `partition.assignment.strategy`
has, so that a configuration can be carried over.
"""

from collections.abc import Callable
from typing import Final

from headrace.clients.assignors.consumer_partition_assignor import ConsumerPartitionAssignor
from headrace.clients.assignors.range_assignor import RangeAssignor
from headrace.clients.assignors.round_robin_assignor import RoundRobinAssignor
from headrace.clients.assignors.sticky_assignor import CooperativeStickyAssignor, StickyAssignor

_CLASSES: Final[tuple[type[ConsumerPartitionAssignor], ...]] = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)
_JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."
ASSIGNORS: Final[dict[str, Callable[[], ConsumerPartitionAssignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def make_assignor(name: str) -> ConsumerPartitionAssignor:
    """A fresh assignor for one consumer; ValueError for a name that none has."""
    found = ASSIGNORS.get(name)
    if found is None:
        found = next((each for each in _CLASSES if name == _JAVA_PACKAGE + each.__name__), None)
    if found is None:
        raise ValueError(f"no assignor is called {name!r}; there are {', '.join(ASSIGNORS)}")
    return found()
