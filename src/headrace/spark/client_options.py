"""A cluster as source and sink are told of it: its brokers, and the settings of clients as options `kafka.*`.

The settings are those of a file that serves all clients (--command-config). So each side takes what it knows,
and leaves what is the query's own affair: where to begin, which group shows its progress, who must have a
record before it counts. Options of an input or output win over them, and one whose options name other brokers
is told nothing of this cluster: its passwords are no business of theirs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.clients.config import CONSUMER, PRODUCER
from headrace.spark.secret_options import CLIENT_PREFIX

BROKERS: Final = f"{CLIENT_PREFIX}bootstrap.servers"
# Settings that commands' own clients need, and that would work against source and sink.
_NOT_OF_SOURCE: Final = frozenset({"auto.offset.reset", "enable.auto.commit", "group.id"})
_NOT_OF_SINK: Final = frozenset({"acks", "enable.idempotence", "transactional.id"})


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How a cluster is reached. `settings` are of clients of any kind, with secrets among them."""

    brokers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of_source(self, own: Mapping[str, str]) -> dict[str, str]:
        """Options of a source that has these of its own."""
        return {**self._shared(own, CONSUMER, _NOT_OF_SOURCE), **own}

    def of_sink(self, own: Mapping[str, str]) -> dict[str, str]:
        """Options of a sink that has these of its own."""
        return {**self._shared(own, PRODUCER, _NOT_OF_SINK), **own}

    def beside_source(self, own: Mapping[str, str]) -> dict[str, str]:
        """Of a sink in this cluster, beside a source that has these of its own: it logs in as that one does,
        where it is the same cluster."""
        own = {name.lower(): text for name, text in own.items()}
        if self._is_elsewhere(own):
            return {}
        known = {CLIENT_PREFIX + name for name in PRODUCER.keys() - _NOT_OF_SINK}
        return {name: text for name, text in own.items() if name in known and name != BROKERS}

    def _shared(
        self, own: Mapping[str, str], table: Iterable[str], left_out: frozenset[str]
    ) -> dict[str, str]:
        if self._is_elsewhere(own):
            return {}
        names = set(table) - left_out
        given = {CLIENT_PREFIX + name: text for name, text in self.settings.items() if name in names}
        return {**given, BROKERS: self.brokers}

    def _is_elsewhere(self, own: Mapping[str, str]) -> bool:
        named = {name.lower(): text.strip() for name, text in own.items()}.get(BROKERS, self.brokers)
        return named != self.brokers.strip()


def client_settings_of(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of clients among options."""
    folded = {name.lower(): text for name, text in options.items()}
    return {
        name.removeprefix(CLIENT_PREFIX): text
        for name, text in folded.items()
        if name.startswith(CLIENT_PREFIX)
    }
