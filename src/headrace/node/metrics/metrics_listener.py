"""What `headrace.metrics.listener` opens: /metrics for scrapers, /health/live and /health/ready for probes.

A scrape is gathered and written in slices between which the loop serves others. Scrapers that come while one
is under way get what that one got, so that their number costs nothing.
"""

import asyncio
import hmac
import logging
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Final, Protocol

from headrace.log.compaction.drivers.log_cleaner import LogCleaner
from headrace.node.channel_builders import ChannelBuilders
from headrace.node.listeners import Listeners
from headrace.node.metrics.clients import gather_clients
from headrace.node.metrics.groups import EndOffsets, Ends, gather_groups, gather_transactions
from headrace.node.metrics.partitions import gather_partitions, gather_topics
from headrace.node.metrics.quorum import QuorumFigures, gather_cluster
from headrace.node.metrics.quotas import AcceptFigures, gather_quotas, gather_throttles
from headrace.node.metrics.share_groups import ShareFigures
from headrace.node.metrics.upkeep import (
    gather_audit,
    gather_cleaner,
    gather_flushes,
    gather_logins,
    gather_remote_log,
)
from headrace.server.broker_clients import BrokerClients
from headrace.server.broker_state import BrokerState
from headrace.server.environment import NodeEnvironment
from headrace.server.parts import Parts
from headrace.server.request_log import error_name
from headrace.settings.listeners import parse_endpoints
from headrace.telemetry.metrics.exposition import Families, content_type
from headrace.telemetry.metrics.request_metrics import PHASES, SIZES
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.connection_quotas import AcceptThrottles
from headrace.transport.http_listener import HttpListener, HttpReply, HttpRequest
from headrace.transport.network import Network

if TYPE_CHECKING:
    from headrace.node.assembly import Node
    from headrace.remote_log.remote_log_manager import RemoteLogManager

logger = logging.getLogger(__name__)

SETTING: Final = "headrace.metrics.listener"
TOKEN_SETTING: Final = "headrace.metrics.token"
HTTPS: Final = "HTTPS"
"""Its certificate is that of `listener.name.https.ssl.*`, or of `ssl.*`."""
HEALTH: Final = ("/health/live", "/health/ready")


class ProcessGatherer(Protocol):
    """`process.ProcessFigures`, where there is a process to look at."""

    def gather(self, families: Families, serving_ns: int) -> Iterator[None]: ...


@dataclass(frozen=True, slots=True)
class NodeView:
    """What figures are taken from, besides the parts that handlers have."""

    parts: Parts
    is_broker: bool
    state: Callable[[], BrokerState]
    connections: Callable[[], Mapping[str, int]]
    certificates_end_ms: Callable[[], Mapping[str, int]]
    logins: Callable[[], Mapping[str, tuple[int, int]]]
    throttles: Callable[[], Mapping[str, AcceptThrottles]]
    log_cleaner: LogCleaner
    remote_log_manager: "RemoteLogManager | None"
    serving_ns: Callable[[], int]
    process: ProcessGatherer | None


def open_metrics(
    node: "Node",
    listeners: Listeners,
    channel_builders: ChannelBuilders,
    world: NodeEnvironment,
    process: ProcessGatherer | None,
) -> "MetricsListener":
    """The listener of a node's settings, open. SettingError or OSError where it cannot be."""
    config = node.config
    [endpoint] = parse_endpoints(SETTING, [config.str(SETTING)], {"HTTP": "PLAINTEXT", HTTPS: "SSL"})
    has_tls = endpoint.name == HTTPS
    view = NodeView(
        parts=node.parts,
        is_broker="broker" in config.roles,
        state=lambda: node.state,
        connections=listeners.connections,
        certificates_end_ms=channel_builders.certificates_end_ms,
        logins=listeners.logins,
        throttles=listeners.throttles,
        log_cleaner=node.log_cleaner,
        remote_log_manager=node.remote_log_manager,
        serving_ns=lambda: listeners.served_ns,
        process=process,
    )
    ends = EndOffsets(node.parts, BrokerClients("metrics", config, node.image, world))
    token = config.get(TOKEN_SETTING)
    listener = MetricsListener(
        world.network,
        view,
        ends,
        token="" if token is None else str(token),
        channel_builder=channel_builders.of_https(HTTPS) if has_tls else PLAINTEXT,
    )
    try:
        listener.open(endpoint.host, endpoint.port)
    except OSError as error:
        error.filename = str(endpoint)
        raise
    return listener


def why_not_ready(view: NodeView) -> str:
    """For a probe; empty where the node is registered, unfenced and listening."""
    state = view.state()
    if state is not BrokerState.RUNNING:
        return "the node starts" if state is BrokerState.STARTING else "the node stops"
    own = view.parts.image.brokers.get(view.parts.node_id)
    is_out = view.is_broker and (own is None or own.fenced)
    return "the controller has fenced this broker" if is_out else ""


class MetricsListener:
    """One address for whoever watches the node. With a `token`, /metrics is for who has it."""

    def __init__(
        self,
        network: Network,
        view: NodeView,
        ends: EndOffsets,
        *,
        token: str = "",
        channel_builder: ChannelBuilder = PLAINTEXT,
    ) -> None:
        self._view = view
        self._ends = ends
        self._token = token.encode()
        self._loop = view.parts.loop
        self._quorum = QuorumFigures()
        self._share_groups = ShareFigures()
        self._accepting = AcceptFigures()
        self._under_way: dict[str, asyncio.Task[HttpReply]] = {}
        self._scrape_s = 0.0
        self._scheme = "http" if channel_builder is PLAINTEXT else "https"
        self._listener = HttpListener(self._loop, network, self._respond, channel_builder=channel_builder)
        self.address: tuple[str, int] | None = None

    def open(self, host: str, port: int) -> None:
        """OSError where the port is taken."""
        self.address = self._listener.listen(host, port)
        logger.info("metrics and health are at %s://%s:%d/metrics", self._scheme, *self.address)

    def close(self) -> None:
        self._listener.close()
        for task in self._under_way.values():
            task.cancel()
        self._ends.stop()

    def _respond(self, request: HttpRequest) -> "HttpReply | asyncio.Future[HttpReply]":
        if request.path == "/metrics":
            if not self._may_read(request):
                return HttpReply.text(401, "headrace.metrics.token is wanted, as `Authorization: Bearer`")
            return self._scrape(request.headers.get("accept", ""))
        if request.path == "/health/live":
            return HttpReply.text(200, "the loop turns")
        if request.path == "/health/ready":
            why_not = why_not_ready(self._view)
            return HttpReply.text(503, why_not) if why_not else HttpReply.text(200, "ready")
        return HttpReply.text(404, f"there are /metrics, {' and '.join(HEALTH)}")

    def _may_read(self, request: HttpRequest) -> bool:
        if not self._token:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token)

    def _scrape(self, accept: str) -> "asyncio.Future[HttpReply]":
        kind = content_type(accept)
        task = self._under_way.get(kind)
        if task is None:
            task = self._under_way[kind] = self._loop.create_task(self._gather(accept, kind))
            task.add_done_callback(lambda _: self._under_way.pop(kind, None))
        return task

    async def _gather(self, accept: str, kind: str) -> HttpReply:
        began = self._loop.time()
        ends = await self._ends.of_groups() if self._view.is_broker else {}
        families = Families()
        for _ in self._all(families, ends):
            await asyncio.sleep(0)
        pieces = []
        for piece in families.text(accept):
            pieces.append(piece)
            await asyncio.sleep(0)
        self._scrape_s = self._loop.time() - began
        return HttpReply(200, pieces, kind)

    def _all(self, families: Families, ends: Ends) -> Iterator[None]:
        view = self._view
        parts = view.parts
        families.add("headrace_build_info", 1, version_of("headrace"), platform.python_version())
        families.add("headrace_scrape_seconds", self._scrape_s)
        families.add("kafka_server_kafkaserver_brokerstate", view.state())
        if view.is_broker:
            yield from gather_topics(families, parts)
            yield from gather_partitions(families, parts)
            yield from gather_groups(families, parts, ends)
            yield from gather_transactions(families, parts)
            yield from self._share_groups.gather(families, parts)
            yield from gather_clients(families, parts.client_metrics, self._loop.time())
            self._gather_server(families)
            gather_cleaner(families, view.log_cleaner)
            gather_remote_log(families, parts, view.remote_log_manager)
            gather_flushes(families, parts)
        gather_throttles(families, parts)
        yield from gather_quotas(families, parts)
        self._accepting.gather(families, view.throttles(), self._loop.time())
        gather_audit(families, parts)
        gather_logins(families, view.logins())
        yield from gather_cluster(families, parts)
        yield from self._quorum.gather(families, parts)
        self._gather_network(families)
        if view.process is not None:
            yield from view.process.gather(families, view.serving_ns())

    def _gather_server(self, families: Families) -> None:
        parts = self._view.parts
        families.add("headrace_delayed_operations", len(parts.purgatory))
        families.add("kafka_server_fetchsessioncache_numincrementalfetchsessions", len(parts.sessions))
        folders = parts.log_manager.log_dirs
        offline = sum(not folder.online for folder in folders)
        families.add("kafka_log_logmanager_offlinelogdirectorycount", offline)
        families.add("headrace_log_segment_files_open", parts.log_manager.open_files.held)
        for folder in folders:
            try:
                size_bytes, free_bytes = folder.disk.usage(folder.path)
            except OSError:
                continue  # it is told as offline
            families.add("headrace_log_directory_size_bytes", size_bytes, folder.path)
            families.add("headrace_log_directory_available_bytes", free_bytes, folder.path)
        image = parts.image.brokers.get(parts.node_id)
        for endpoint in () if image is None else list(image.endpoints.values())[:1]:
            address = f"{endpoint.host}:{endpoint.port}"
            families.add("kafka_broker_info", 1, str(parts.node_id), address)

    def _gather_network(self, families: Families) -> None:
        requests = self._view.parts.request_log.metrics
        prefix = "kafka_network_requestmetrics"
        for (kind, version), metrics in requests.by_version.items():
            if metrics.count:
                families.add(f"{prefix}_requests_total", metrics.count, kind, str(version))
        for (kind, code), count in requests.errors.items():
            families.add(f"{prefix}_errors_total", count, kind, error_name(code))
        for kind, of_kind in requests.by_kind.items():
            if not of_kind.total:
                continue  # none was looked at yet
            for phase in PHASES:
                name = f"{prefix}_{phase.replace('_', '')}timems"
                families.add_histogram(name, getattr(of_kind, phase), kind)
            for size in SIZES:
                name = f"{prefix}_{size.replace('_', '')}"
                families.add_histogram(name, getattr(of_kind, size), kind)
        for name, end_ms in self._view.certificates_end_ms().items():
            families.add("headrace_certificate_expiry_timestamp_seconds", end_ms / 1000, name)
        for name, count in self._view.connections().items():
            families.add("kafka_server_socket_server_metrics_connection_count", count, name)
