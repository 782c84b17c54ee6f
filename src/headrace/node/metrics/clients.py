"""What clients have pushed of themselves (KIP-714), and what became of it."""

from collections.abc import Iterator
from typing import Final

from headrace.server.client_metrics_manager import ClientMetricsManager
from headrace.server.request_log import error_name
from headrace.telemetry.metrics.exposition import Families, labels_text

SLICE: Final = 500
GAUGE: Final = "headrace_client_metric"
TOTAL: Final = "headrace_client_metric_sum_total"


def gather_clients(families: Families, manager: ClientMetricsManager, now_s: float) -> Iterator[None]:
    manager.pushed.expire(now_s)
    families.add("headrace_client_metrics_instances", len(manager))
    families.add("headrace_client_metrics_left_out_total", manager.pushed.left_out)
    for code, count in manager.outcomes.items():
        families.add("headrace_client_metrics_pushes_total", count, error_name(code))
    if manager.exporter is not None:
        for outcome, count in manager.exporter.counts.items():
            families.add("headrace_client_metrics_handed_on_total", count, outcome)
    for number, each in enumerate(manager.pushed.values()):
        if number % SLICE == 0:
            yield
        name = TOTAL if each.is_total else GAUGE
        labels = labels_text(
            metric=each.metric,
            client_id=each.client_id,
            client_instance_id=each.instance_id,
            attributes=each.attributes,
        )
        families.rows(name).append(f"{name}{labels} {each.value}\n")
