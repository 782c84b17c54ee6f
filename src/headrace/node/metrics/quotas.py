"""Who is held to a quota, and for how long: by kind of quota, by client, and new connections by listener."""

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.server.parts import Parts
from headrace.server.quotas.client_quota_manager import ClientQuotaManager, ClientSensor, MutationSensor
from headrace.telemetry.metrics.exposition import Families, labels_text
from headrace.telemetry.metrics.window import Window
from headrace.transport.connection_quotas import AcceptThrottles

CLIENTS_MAX: Final = 200
"""Of each kind: names of clients are their own choice, where a quota is everybody's."""

_LISTENER: Final = "kafka_server_socket_server_metrics"


def gather_throttles(families: Families, parts: Parts) -> None:
    """Replies that told clients to wait."""
    channels = parts.quotas.channels
    families.add("headrace_throttled_connections", len(channels))
    for quota, count in channels.replies.items():
        families.add("headrace_throttled_replies_total", count, quota)
        families.add("headrace_throttle_seconds_total", channels.throttle_ms[quota] / 1000, quota)


def gather_quotas(families: Families, parts: Parts) -> Iterator[None]:
    """The clients that quotas bind, as Kafka's Produce, Fetch, Request and ControllerMutation show them."""
    quotas, now_ms = parts.quotas, parts.clock.monotonic_ms()
    yield
    _gather_kind(families, quotas.produce, "produce", "byte_rate", now_ms)
    _gather_kind(families, quotas.fetch, "fetch", "byte_rate", now_ms)
    yield
    _gather_kind(families, quotas.request, "request", "request_time", now_ms)
    _gather_kind(families, quotas.controller_mutation, "controllermutation", "mutation_rate", now_ms)


def _gather_kind(
    families: Families,
    manager: ClientQuotaManager[ClientSensor] | ClientQuotaManager[MutationSensor],
    kind: str,
    rate: str,
    now_ms: int,
) -> None:
    rate_name, throttle_name = f"kafka_server_{kind}_{rate}", f"kafka_server_{kind}_throttle_time"
    for user, client_id, sensor in manager.busiest(CLIENTS_MAX):
        labels = labels_text(user=user, client_id=client_id)
        families.rows(rate_name).append(f"{rate_name}{labels} {sensor.rate(now_ms)}\n")
        throttle_ms = sensor.throttle_time.average_ms(now_ms)
        families.rows(throttle_name).append(f"{throttle_name}{labels} {throttle_ms}\n")


class _Average:
    """What one took, of those of the last half minute."""

    def __init__(self) -> None:
        self._count = Window()
        self._sum = Window()

    def value(self, now_s: float, count: int, total: float) -> float:
        counted, summed = self._count.rate(now_s, count), self._sum.rate(now_s, total)
        return summed / counted if counted else 0.0


class AcceptFigures:
    """How long new connections were held up: averages, so that somebody must know how it was before."""

    def __init__(self) -> None:
        self._of_listener: dict[str, _Average] = {}
        self._of_addresses: dict[str, _Average] = {}

    def gather(self, families: Families, throttles: Mapping[str, AcceptThrottles], now_s: float) -> None:
        """By listener, in milliseconds."""
        for name, each in throttles.items():
            of_listener = self._of_listener.setdefault(name, _Average())
            of_addresses = self._of_addresses.setdefault(name, _Average())
            for metric, value in (
                ("", of_listener.value(now_s, each.listener_count, each.listener_s)),
                ("ip_", of_addresses.value(now_s, each.address_count, each.address_s)),
            ):
                families.add(f"{_LISTENER}_{metric}connection_accept_throttle_time", value * 1000, name)
            delays = each.listener_count, each.address_count
            families.add("headrace_connection_throttles_total", delays[0], name, "listener")
            families.add("headrace_connection_throttles_total", delays[1], name, "ip")
