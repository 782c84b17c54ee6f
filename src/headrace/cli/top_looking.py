"""Looking at a cluster, for `headrace top`.

A look asks the cluster over Kafka's protocol alone, so any Kafka will do: brokers, partitions, where these
end, what folders hold, groups and their offsets. Addresses of /metrics add what the protocol does not tell:
requests, bytes a second, how busy a broker is. What cannot be had is a gap with a note that says why; it
never ends the command.
"""

import re
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, ClusterDescription, GroupListing, LogDirDescription, TopicDescription
from headrace.clients.errors import ClientError

T = TypeVar("T")

GROUPS_MAX: Final = 200
"""Whose offsets are asked for in one look: each is a request or two."""
SCRAPE_BYTES_MAX: Final = 64 * 1024 * 1024
SCRAPE_S: Final = 5.0

# Those that are shown; the values of single partitions, of which there may be 100,000, are passed over.
_WANTED: Final = (
    "kafka_broker_info",
    "kafka_network_requestmetrics_errors_total",
    "kafka_network_requestmetrics_localtimems",
    "kafka_network_requestmetrics_requestbytes",
    "kafka_network_requestmetrics_requests_total",
    "kafka_network_requestmetrics_totaltimems_count",
    "kafka_network_requestmetrics_totaltimems_sum",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_brokertopicmetrics_bytes",
    "kafka_server_socket_server_metrics_connection_count",
    "process_",
)

# Others, of a newer Kafka, have offsets, and members that only their own kind of request would tell.
_DESCRIBED: Final = ("classic", "consumer", "streams")
_SHARE: Final = "share"

Labels = Mapping[str, str]


class MetricsAddress(NamedTuple):
    """Where a broker's /metrics is; the id is only needed where they do not tell it (`kafka_broker_info`)."""

    url: str
    node_id: int | None = None

    @classmethod
    def parse(cls, text: str) -> "MetricsAddress":
        """`host:9404`, `https://host:9404/metrics` or `ID=host:9404`; ValueError for anything else."""
        found = re.fullmatch(r"(?:(\d+)=)?(https?://)?([^/\s]+:\d+)(/\S*)?", text.strip())
        if found is None:
            raise ValueError(f"{text!r} is not HOST:PORT, a URL, or ID=HOST:PORT")
        node_id, scheme, host, path = found.groups()
        url = f"{scheme or 'http://'}{host}{path or '/metrics'}"
        return cls(url, None if node_id is None else int(node_id))


@dataclass(slots=True)
class Scrape:
    """What one /metrics told that is shown here."""

    url: str
    at_s: float
    node_id: int | None
    samples: dict[str, list[tuple[Labels, float]]]

    def one(self, name: str) -> float | None:
        """A value without labels, or the sum of those with."""
        found = self.samples.get(name)
        return None if not found else sum(value for _, value in found)

    def total(self, name: str, label: str, wanted: str) -> float | None:
        """The sum of those with this value of a label; none counts as empty."""
        found = [value for labels, value in self.samples.get(name, ()) if labels.get(label, "") == wanted]
        return sum(found) if found else None


@dataclass(slots=True)
class GroupLook:
    """A group, how many members it has, and what it has committed; of a share group where it begins, and the
    lag that it tells itself."""

    listing: GroupListing
    members: int | None = None
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    at_s: float = 0.0
    lag: int | None = None


@dataclass(slots=True)
class Look:
    """A cluster at one time. `at_s` are of a monotonic clock."""

    time_ms: int
    cluster: ClusterDescription
    topics: list[TopicDescription] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    ends_at_s: float = 0.0
    folders: list[LogDirDescription] = field(default_factory=list)
    groups: list[GroupLook] = field(default_factory=list)
    scrapes: list[Scrape] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def attempt(self, what: str, ask: Callable[..., T], *arguments: Any) -> T | None:
        """What is answered; None and a note where it is refused or late."""
        try:
            return ask(*arguments)
        except ClientError as error:
            self.notes.append(f"{what}: {error}")
            return None


class Looker:
    """Looks at one cluster again and again."""

    def __init__(
        self,
        admin: Admin,
        addresses: Iterable[MetricsAddress] = (),
        *,
        token: str = "",
        ca_file: str | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admin = admin
        self._addresses = list(addresses)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = trusting(ca_file) if ca_file else None
        self._now_s = now_s

    def look(self) -> Look:
        """How it is now. ClientError only where no broker answers at all."""
        admin = self._admin
        look = Look(time.time_ns() // 1_000_000, admin.describe_cluster())
        names = [each.name for each in look.attempt("topics", admin.list_topics) or ()]
        if names:
            look.topics = look.attempt("topics", admin.describe_topics, names) or []
        partitions = [
            TopicPartition(topic.name, each.number) for topic in look.topics for each in topic.partitions
        ]
        look.ends = look.attempt("ends of partitions", admin.end_offsets, partitions) or {}
        look.ends_at_s = self._now_s()
        for broker in look.cluster.brokers:
            if not broker.fenced:
                what = f"folders of broker {broker.node_id}"
                look.folders += look.attempt(what, admin.describe_log_dirs, broker.node_id) or []
        self._look_at_groups(look)
        for address in self._addresses:
            self._scrape(look, address)
        return look

    def _look_at_groups(self, look: Look) -> None:
        admin = self._admin
        listed = look.attempt("groups", admin.list_groups) or []
        look.groups = [GroupLook(each) for each in listed]
        if len(listed) > GROUPS_MAX:
            look.notes.append(
                f"of {len(listed)} groups only the first {GROUPS_MAX} are asked how far they are"
            )
        for each in look.groups[:GROUPS_MAX]:
            if each.listing.type == _SHARE:
                self._look_at_share_group(look, each)
            else:
                self._look_at_group(look, each)
            each.at_s = self._now_s()

    def _look_at_group(self, look: Look, group: GroupLook) -> None:
        name, type_ = group.listing.group_id, group.listing.type
        if type_ in _DESCRIBED:
            ask = partial(self._admin.describe_group, group_type=type_)
            described = look.attempt(f"group {name}", ask, name)
            group.members = None if described is None else len(described.members)
        offsets = look.attempt(f"offsets of group {name}", self._admin.group_offsets, name) or {}
        group.offsets = {where: committed.offset for where, committed in offsets.items()}

    def _look_at_share_group(self, look: Look, group: GroupLook) -> None:
        name = group.listing.group_id
        for described in look.attempt(f"group {name}", self._admin.describe_share_groups, name) or ():
            group.members = len(described.members)
        what = f"offsets of group {name}"
        places = look.attempt(what, self._admin.list_share_group_offsets, name) or {}
        group.offsets = {where: place.start_offset for where, place in places.items()}
        lags = [place.lag for place in places.values() if place.lag is not None]
        group.lag = sum(lags) if lags else None

    def _scrape(self, look: Look, address: MetricsAddress) -> None:
        try:
            request = urllib.request.Request(address.url, headers=self._headers)
            with urllib.request.urlopen(request, timeout=SCRAPE_S, context=self._tls) as answer:
                text = answer.read(SCRAPE_BYTES_MAX + 1)
            if len(text) > SCRAPE_BYTES_MAX:
                raise ValueError(f"it tells more than {SCRAPE_BYTES_MAX >> 20} MiB")
            samples = read_metrics(text.decode())
        except (OSError, ValueError) as error:
            look.notes.append(f"{address.url}: {error}")
            return
        node_id = address.node_id
        for labels, _ in samples.get("kafka_broker_info", ()):
            node_id = int(labels["id"])
        look.scrapes.append(Scrape(address.url, self._now_s(), node_id, samples))


def trusting(ca_file: str) -> Any:
    """The TLS of a client that trusts this authority alone."""
    from headrace.clients.config import ADMIN, ClientConfig
    from headrace.security.ssl_engine_factory import load_engines
    from headrace.security.ssl_settings import SslSettings

    stores = {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca_file}
    config = ClientConfig(ADMIN, {"bootstrap.servers": "any:1", **stores})
    return load_engines(SslSettings.read(config.get), lambda path: Path(path).read_bytes()).client


def read_metrics(text: str) -> dict[str, list[tuple[Labels, float]]]:
    """The samples of a text of Prometheus that are shown here, by name."""
    from prometheus_client.parser import text_string_to_metric_families

    lines = [line for line in text.splitlines() if line.startswith(_WANTED)]
    found: dict[str, list[tuple[Labels, float]]] = defaultdict(list)
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            found[sample.name].append((sample.labels, sample.value))
    return dict(found)
