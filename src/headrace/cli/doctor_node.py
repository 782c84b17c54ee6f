"""What `headrace doctor` looks at in a node that need not run: its settings, folders and files.

Nothing is changed, and no folder is locked. Of a node that runs, the last segment of a log may be half
written at the moment when it is looked at: what is found there is a warning.
"""

import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.cli.doctor_findings import Finding
from headrace.cli.doctor_marks import committed_findings, txn_index_findings
from headrace.log.batch_scan import OldFormatError, scan_headers
from headrace.log.checkpoints import decode_epochs, decode_offsets, decode_partition_metadata
from headrace.log.disk import Disk
from headrace.log.file_names import (
    CLEANER_OFFSETS,
    CLUSTER_METADATA,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    SNAPSHOT,
    parse_partition_folder,
    parse_segment_file,
)
from headrace.log.meta_properties import MetaProperties, decode_meta_properties
from headrace.log.producer_snapshots import decode_snapshot
from headrace.node.announcements import settings_without_effect
from headrace.node.secret_files import ExposedFiles, secret_files_of
from headrace.raft.damage import refuse_damage
from headrace.raft.metadata_log import read_bootstrap
from headrace.raft.quorum_state import read_state
from headrace.records.header import crc_matches
from headrace.settings.broker_config import BrokerConfig

DESCRIPTORS_MIN: Final = 10_000
FREE_BYTES_MIN: Final = 1 << 30
FREE_SHARE_MIN: Final = 0.05
CLOCK_SLACK_S: Final = 60.0


def look_at_node(disk: Disk, config: BrokerConfig, warnings: list[str]) -> Iterator[Finding]:
    """All findings of a node with these settings; `warnings` are those of its file."""
    yield from told_of_settings(warnings)
    yield from _settings(config)
    yield from _secret_files(config)
    yield from _descriptors()
    metas: dict[str, MetaProperties] = {}
    for folder in config.log_dirs:
        yield from _folder(disk, folder, metas)
    yield from _identities(config, metas)
    yield from _quorum(disk, config.metadata_log_dir)


def told_of_settings(warnings: list[str]) -> Iterator[Finding]:
    """What reading their file brought up."""
    for text in warnings:
        yield Finding("warning", "settings", text, "take it out, or write the name that is meant")


def _settings(config: BrokerConfig) -> Iterator[Finding]:
    for name, why in settings_without_effect(config).items():
        yield Finding("warning", name, f"it has no effect: {why}", "nothing, or take it out")


def _secret_files(config: BrokerConfig) -> Iterator[Finding]:
    for file in ExposedFiles().among(secret_files_of(config)):
        yield Finding("warning", file.path, f"it {file.what}", f"`{file.advice}`")


def _descriptors() -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        yield Finding(
            "warning",
            "descriptors",
            f"a process of this user may open {hard} files and connections",
            f"raise it: `ulimit -Hn {DESCRIPTORS_MIN * 10}`, or LimitNOFILE= in systemd's unit",
        )


def _folder(disk: Disk, folder: str, metas: dict[str, MetaProperties]) -> Iterator[Finding]:
    if not disk.exists(folder):
        yield Finding(
            "error", folder, "the folder is not there", "mount its disk, or start a node: it makes the folder"
        )
        return
    yield from _room(folder)
    path = f"{folder}/{META_PROPERTIES}"
    try:
        metas[folder] = decode_meta_properties(disk.read_file(path))
    except FileNotFoundError:
        yield Finding(
            "warning", folder, "it is not formatted", "`headrace format`, or start a node that is alone"
        )
    except InvalidBytesError as error:
        yield Finding("error", path, f"it is damaged: {error}", "bring it back from a copy")
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS):
        yield from _checkpoint(disk, f"{folder}/{name}")
    for name in sorted(disk.list(folder)):
        parsed = parse_partition_folder(name)
        is_log = parsed is not None and not parsed.state and disk.is_folder(f"{folder}/{name}")
        if is_log and name != str(CLUSTER_METADATA):
            yield from _log(disk, f"{folder}/{name}")


def _room(folder: str) -> Iterator[Finding]:
    usage = shutil.disk_usage(folder)
    if usage.free < min(FREE_BYTES_MIN, usage.total * FREE_SHARE_MIN):
        yield Finding(
            "error" if usage.free < FREE_BYTES_MIN / 10 else "warning",
            folder,
            f"{usage.free / 2**20:.0f} MiB of {usage.total / 2**20:.0f} MiB are free",
            "make room, lower retention.bytes, or move replicas with `headrace reassign`",
        )


def _checkpoint(disk: Disk, path: str) -> Iterator[Finding]:
    try:
        decode_offsets(disk.read_file(path))
    except FileNotFoundError:
        return
    except InvalidBytesError as error:
        yield Finding(
            "warning",
            path,
            f"it is damaged: {error}",
            "remove it: the next start takes longer, and reads the logs instead",
        )


def _log(disk: Disk, folder: str) -> Iterator[Finding]:
    parsed = [(name, parse_segment_file(name)) for name in disk.list(folder)]
    yield from _beside_segments(disk, folder, [name for name, _ in parsed])
    yield from txn_index_findings(disk, folder)
    names = sorted(
        name for name, file in parsed if file is not None and file.suffix == LOG and name.endswith(LOG)
    )
    newest_ms = 0
    for name in names:
        path = f"{folder}/{name}"
        try:
            newest_ms = max(newest_ms, _check_segment(disk, path))
        except FileNotFoundError:
            continue  # a running node has deleted it
        except OldFormatError as error:
            yield Finding(
                "error",
                path,
                f"its messages are of a format before Kafka 0.11: {error}",
                "read them with the Kafka that wrote them, and produce them here",
            )
        except (InvalidBytesError, OSError) as error:
            is_last = name == names[-1]
            yield Finding(
                "warning" if is_last else "error",
                path,
                f"it is damaged: {error}",
                "the next start cuts it off there; replicas bring back what was replicated"
                if is_last
                else "stop the node, remove the folder, start it: another replica fills it again. Without "
                "one, records are lost: bring the file back from a copy",
            )
    if newest_ms / 1000 > time.time() + CLOCK_SLACK_S:
        yield Finding(
            "warning",
            folder,
            "its newest record is from the future",
            "set this machine's clock, or that of its producers (NTP): retention goes by these times",
        )


def _beside_segments(disk: Disk, folder: str, names: list[str]) -> Iterator[Finding]:
    """The small files of a log: the next start finds again what they had."""
    for name in sorted(names):
        known = _SMALL_FILES.get(name) or _SMALL_FILES.get(os.path.splitext(name)[1])
        if known is None:
            continue
        decode, source = known
        path = f"{folder}/{name}"
        try:
            decode(disk.read_file(path))
        except FileNotFoundError:
            continue  # a running node has removed it
        except InvalidBytesError as error:
            yield Finding(
                "warning",
                path,
                f"it is damaged: {error}",
                f"restart the node: it finds this again in {source}",
            )


_SMALL_FILES: Final[dict[str, tuple[Callable[[bytes], object], str]]] = {
    LEADER_EPOCHS: (decode_epochs, "the log's batches"),
    PARTITION_METADATA: (decode_partition_metadata, "the cluster's metadata"),
    SNAPSHOT: (decode_snapshot, "the log's batches"),
}
"""How files are read, by their names or suffixes, and where else is what they have."""


def _check_segment(disk: Disk, path: str) -> int:
    """Its newest timestamp; InvalidBytesError where a batch is not what was written."""
    newest_ms = 0
    with_file = disk.open(path, writable=False)
    try:
        for position, header in scan_headers(with_file, 0, disk.size(path)):
            if not crc_matches(with_file.read(position, header.size), 0, header):
                raise InvalidBytesError(f"the batch at byte {position} does not match its CRC")
            newest_ms = max(newest_ms, header.max_timestamp)
    finally:
        with_file.close()
    return newest_ms


def _identities(config: BrokerConfig, metas: dict[str, MetaProperties]) -> Iterator[Finding]:
    for folder, meta in metas.items():
        if meta.node_id != config.node_id:
            yield Finding(
                "error",
                folder,
                f"it belongs to node {meta.node_id}, the settings are of node {config.node_id}",
                "correct node.id, or log.dirs",
            )
    clusters = sorted({meta.cluster_id for meta in metas.values()})
    if len(clusters) > 1:
        yield Finding(
            "error",
            ", ".join(metas),
            f"the folders belong to several clusters: {', '.join(clusters)}",
            "take the foreign folder out of log.dirs",
        )


def _quorum(disk: Disk, directory: str) -> Iterator[Finding]:
    folder = f"{directory}/{CLUSTER_METADATA}"
    if not disk.exists(folder):
        return
    for look in (
        lambda: read_bootstrap(disk, directory),
        lambda: read_state(disk, folder),
        lambda: refuse_damage(disk, folder),
    ):
        try:
            look()
        except InvalidBytesError as error:
            what, _, advice = str(error).partition(". ")
            yield Finding("error", "metadata", what, advice or "bring the file back from a copy")
            return
    yield from committed_findings(disk, folder)
