"""What a node does beside serving: flushing and cleaning logs, copying to a remote store, the audit trail,
logins."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.log.compaction.drivers.log_cleaner import LogCleaner
from headrace.server.parts import Parts
from headrace.telemetry.metrics.exposition import Families

if TYPE_CHECKING:
    from headrace.remote_log.remote_log_manager import RemoteLogManager

LOGINS = "kafka_server_socket_server_metrics"


def gather_cleaner(families: Families, cleaner: LogCleaner) -> None:
    totals = cleaner.totals
    families.add("kafka_log_logcleaner_max_clean_time_secs", totals.last_round_s)
    families.add("kafka_log_logcleaner_cleaner_recopy_percent", 100 * totals.last_recopy_share)
    families.add("kafka_log_logcleanermanager_uncleanable_partitions_count", len(cleaner.uncleanable))
    families.add("headrace_log_cleaner_rounds_total", totals.rounds)
    families.add("headrace_log_cleaner_rounds_under_way", cleaner.rounds_under_way)
    families.add("headrace_log_cleaner_freed_bytes_total", max(totals.bytes_before - totals.bytes_after, 0))


def gather_remote_log(families: Families, parts: Parts, manager: "RemoteLogManager | None") -> None:
    """Nothing where topics cannot be tiered."""
    reader = parts.remote_log_reader
    prefix = "kafka_server_brokertopicmetrics_remote"
    if reader is not None:
        families.add(f"{prefix}fetchrequests_total", reader.requests)
        families.add(f"{prefix}fetchbytes_total", reader.bytes)
        families.add(f"{prefix}fetcherrors_total", reader.errors)
    if manager is None:
        return
    families.add(f"{prefix}copybytes_total", manager.runner.copied_bytes)
    for kind, count in manager.tasks.failures.items():
        families.add("headrace_remote_log_task_failures_total", count, kind.value)
    for kind, count in manager.tasks.running.items():
        families.add("headrace_remote_log_tasks", count, kind.value)


def gather_flushes(families: Families, parts: Parts) -> None:
    families.add_histogram("kafka_log_logflushstats_logflushrateandtimems", parts.log_flusher.flush_ms)


def gather_audit(families: Families, parts: Parts) -> None:
    """Nothing where there is no trail."""
    if parts.audit is not None:
        families.add("headrace_audit_events_missing_total", parts.audit.lost)


def gather_logins(families: Families, logins: Mapping[str, tuple[int, int]]) -> None:
    for listener, (successful, failed) in logins.items():
        families.add(f"{LOGINS}_successful_authentication_total", successful, listener)
        families.add(f"{LOGINS}_failed_authentication_total", failed, listener)
