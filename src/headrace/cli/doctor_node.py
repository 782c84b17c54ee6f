"""What `headrace doctor` looks at in a node that need not run: its settings, folders and files.

Nothing is changed, and no folder is locked. Of a node that runs, the last segment of a log may be half
written at the moment when it is looked at: what is found there is a warning.
"""

import resource
import shutil
from collections.abc import Generator, Iterator
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.cli.doctor_findings import Finding
from headrace.cli.doctor_logs import KnownOffsets, gone_findings, log_findings
from headrace.cli.doctor_metadata import metadata_findings
from headrace.log.checkpoints import decode_offsets
from headrace.log.disk import Disk
from headrace.log.file_names import (
    CLEANER_OFFSETS,
    CLUSTER_METADATA,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    parse_partition_folder,
)
from headrace.log.log_directory import WITHOUT
from headrace.log.meta_properties import MetaProperties, decode_meta_properties
from headrace.node.announcements import settings_without_effect
from headrace.node.secret_files import ExposedFiles, secret_files_of
from headrace.raft.metadata_log import read_bootstrap
from headrace.raft.quorum_state import read_state
from headrace.settings.broker_config import BrokerConfig

DESCRIPTORS_MIN: Final = 10_000
FREE_BYTES_MIN: Final = 1 << 30
FREE_SHARE_MIN: Final = 0.05


def look_at_node(disk: Disk, config: BrokerConfig, warnings: list[str]) -> Iterator[Finding]:
    """All findings of a node with these settings; `warnings` are those of its file."""
    yield from told_of_settings(warnings)
    yield from _settings(config)
    yield from _secret_files(config)
    yield from _descriptors()
    metas: dict[str, MetaProperties] = {}
    for folder in config.log_dirs:
        yield from _folder(disk, list(config.log_dirs), folder, metas)
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


def _folder(
    disk: Disk, folders: list[str], folder: str, metas: dict[str, MetaProperties]
) -> Iterator[Finding]:
    """Of one of the node's log directories."""
    if not disk.exists(folder):
        yield Finding(
            "error", folder, "the folder is not there", "mount its disk, or start a node: it makes the folder"
        )
        return
    yield from _room(folder)
    parsed = [(name, parse_partition_folder(name)) for name in sorted(disk.list(folder))]
    own = [name for name, each in parsed if each is not None and each.topic_partition != CLUSTER_METADATA]
    yield from _identity(disk, folder, metas, has_run=bool(own) or disk.exists(f"{folder}/{RECOVERY_POINTS}"))
    known = KnownOffsets(
        starts=(yield from _checkpoint(disk, folder, LOG_STARTS, has_logs=bool(own))),
        flushed=(yield from _checkpoint(disk, folder, RECOVERY_POINTS, has_logs=bool(own))),
        high_watermarks=(yield from _checkpoint(disk, folder, HIGH_WATERMARKS, has_logs=bool(own))),
        cleaned=(yield from _checkpoint(disk, folder, CLEANER_OFFSETS, has_logs=False)),
    )
    for name, each in parsed:
        if name in own and each is not None and not each.state and disk.is_folder(f"{folder}/{name}"):
            yield from log_findings(disk, f"{folder}/{name}", known)
    yield from gone_findings(disk, folders, folder, known)


def _identity(
    disk: Disk, folder: str, metas: dict[str, MetaProperties], *, has_run: bool
) -> Iterator[Finding]:
    path = f"{folder}/{META_PROPERTIES}"
    try:
        metas[folder] = decode_meta_properties(disk.read_file(path))
    except FileNotFoundError:
        if has_run:
            advice = "bring it back from a copy, or write it anew with the ids of the other folders"
            yield Finding("error", path, "it is missing, though a node has run here", advice)
        else:
            advice = "`headrace format`, or start a node that is alone"
            yield Finding("warning", folder, "it is not formatted", advice)
    except InvalidBytesError as error:
        yield Finding("error", path, f"it is damaged: {error}", "bring it back from a copy")


def _room(folder: str) -> Iterator[Finding]:
    usage = shutil.disk_usage(folder)
    if usage.free < min(FREE_BYTES_MIN, usage.total * FREE_SHARE_MIN):
        yield Finding(
            "error" if usage.free < FREE_BYTES_MIN / 10 else "warning",
            folder,
            f"{usage.free / 2**20:.0f} MiB of {usage.total / 2**20:.0f} MiB are free",
            "make room, lower retention.bytes, or move replicas with `headrace reassign`",
        )


def _checkpoint(
    disk: Disk, folder: str, name: str, *, has_logs: bool
) -> Generator[Finding, None, dict[TopicPartition, int]]:
    """Its offsets; none where it is damaged, or not there."""
    path = f"{folder}/{name}"
    try:
        return decode_offsets(disk.read_file(path))
    except FileNotFoundError:
        what, advice = "it is missing, though there are partitions", "bring it back from a copy"
        if has_logs:
            yield Finding("warning", path, what, f"{advice}; without it, {WITHOUT[name]}")
    except InvalidBytesError as error:
        yield Finding("warning", path, f"it is damaged: {error}", f"remove it. Without it, {WITHOUT[name]}")
    return {}


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
    for look in (lambda: read_bootstrap(disk, directory), lambda: read_state(disk, folder)):
        try:
            look()
        except InvalidBytesError as error:
            what, _, advice = str(error).partition(". ")
            yield Finding("error", "metadata", what, advice or "bring the file back from a copy")
            return
    yield from metadata_findings(disk, folder)
