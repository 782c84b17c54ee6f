"""A node's folders at its start: locked, formatted where they are new, and known to be this node's."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from headrace.base.clock import Clock
from headrace.base.ids import new_uuid, uuid_text
from headrace.controller.activation import default_bootstrap
from headrace.controller.drivers.broker_lifecycle_manager import BrokerIdentity
from headrace.log.disk import Disk
from headrace.log.log_directory import LogDirectory
from headrace.log.log_manager import LogManager
from headrace.log.storage import OPEN_FILES_MAX
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.image import MetadataRecord
from headrace.metadata.image_writer import versioned
from headrace.raft.drivers.raft_manager import address_of
from headrace.raft.metadata_log import format_metadata
from headrace.raft.voters import Voter, VoterSet
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError

logger = logging.getLogger(__name__)

EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

MARK_AGAIN_S: Final = 5.0
"""How often a mark is tried that a full disk does not take."""


def open_folders(
    config: BrokerConfig,
    *,
    disk: Disk,
    clock: Clock,
    rng: random.Random,
    on_log_dir_failure: Callable[[LogDirectory], None],
    on_disk_full: Callable[[UnifiedLog], None],
    on_missing_records: Callable[[UnifiedLog], None],
    open_files_max: int = OPEN_FILES_MAX,
) -> tuple[LogManager, str]:
    """The log store, its folders locked and identified but no log open yet, and the cluster's id.

    A new folder joins the cluster of the others; where all are new a cluster begins.
    """
    store = LogManager(
        disk,
        config,
        clock,
        rng,
        on_log_dir_failure=on_log_dir_failure,
        on_disk_full=on_disk_full,
        on_missing_records=on_missing_records,
        open_files_max=open_files_max,
    )
    store.lock()
    try:
        return store, _identify(store, config, disk=disk, clock=clock, rng=rng)
    except BaseException:
        store.unlock()
        raise


def _identify(
    store: LogManager, config: BrokerConfig, *, disk: Disk, clock: Clock, rng: random.Random
) -> str:
    """Give new folders their identity, check that of the others, and tell the cluster's id."""
    known = [folder.meta for folder in store.live_log_dirs() if folder.meta is not None]
    if not known and not _is_alone(config):
        raise SettingError(
            "log.dirs",
            f"{config.log_dirs[0]} is new, and a node of a cluster must know which one it belongs to: format "
            "it first with `headrace format --cluster-id ID`, the same ID on every node",
        )
    cluster_id = known[0].cluster_id if known else uuid_text(new_uuid(rng))
    format_folders(store, config, cluster_id, disk=disk, clock=clock, rng=rng, voters=None)
    return cluster_id


class FirstMembers(Enum):
    """Who votes first in a quorum whose log keeps the voters, where they are not listed."""

    OF_SETTINGS = "this node where the settings name no other"
    THIS_NODE = "this node"
    NOBODY_HERE = "others: this node joins them later"


def format_node(
    config: BrokerConfig,
    cluster_id: str | None,
    *,
    disk: Disk,
    clock: Clock,
    rng: random.Random,
    voters: VoterSet | None = None,
    first: FirstMembers = FirstMembers.OF_SETTINGS,
    bootstrap: Sequence[MetadataRecord] | None = None,
) -> tuple[str, list[str]]:
    """Make the folders of a node that has never run; what is formatted already stays as it is, and says the
    cluster's id where none is given. Returns that id, and the folders that were new."""
    store = LogManager(disk, config, clock, rng, on_log_dir_failure=lambda folder: None)
    store.lock()
    try:
        new = [folder.path for folder in store.live_log_dirs() if folder.meta is None]
        known = [folder.meta.cluster_id for folder in store.live_log_dirs() if folder.meta is not None]
        chosen = cluster_id or (known[0] if known else uuid_text(new_uuid(rng)))
        format_folders(
            store,
            config,
            chosen,
            disk=disk,
            clock=clock,
            rng=rng,
            voters=voters,
            first=first,
            bootstrap=bootstrap,
        )
        return chosen, new
    finally:
        store.unlock()


def format_folders(
    store: LogManager,
    config: BrokerConfig,
    cluster_id: str,
    *,
    disk: Disk,
    clock: Clock,
    rng: random.Random,
    voters: VoterSet | None,
    first: FirstMembers = FirstMembers.OF_SETTINGS,
    bootstrap: Sequence[MetadataRecord] | None = None,
) -> None:
    """Give new folders of a store that is locked their first files. `voters` are those of a new quorum that
    keeps them in its log; without them a node that is alone is its own."""
    # Ids are drawn before formatting because the first voters' record names the directory.
    drawn = {folder.path: new_uuid(rng) for folder in store.live_log_dirs() if folder.meta is None}
    own = drawn.get(config.metadata_log_dir.rstrip("/"))
    if own is not None:
        listed = voters
        alone = not config.list("controller.quorum.voters") and _is_alone(config)
        if listed is None and (
            first is FirstMembers.THIS_NODE or (first is FirstMembers.OF_SETTINGS and alone)
        ):
            endpoints = {each.name: (each.host, each.port) for each in config.controller_listeners}
            listed = VoterSet([Voter(config.node_id, own, endpoints)])
        elif listed is not None and config.node_id in listed.by_id:
            own = drawn[config.metadata_log_dir.rstrip("/")] = listed.by_id[config.node_id].directory_id
        entries = list(versioned(default_bootstrap() if bootstrap is None else bootstrap, {}))
        format_metadata(
            disk, config.metadata_log_dir, bootstrap=entries, voters=listed, now_ms=clock.now_ms()
        )
    ids = iter(drawn.values())
    store.identify(cluster_id, config.node_id, lambda: next(ids))


def identity_of(
    config: BrokerConfig, store: LogManager, cluster_id: str, incarnation_id: bytes
) -> BrokerIdentity:
    """Who registers with the controller: a node and the folders that it could open."""
    folders = [folder.meta for folder in store.live_log_dirs() if folder.meta is not None]
    return BrokerIdentity(
        node_id=config.node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        directories=tuple(sorted(meta.directory_id for meta in folders)),
        rack=config.str("broker.rack") or None,
        previous_epoch=store.previous_broker_epoch,
    )


def _is_alone(config: BrokerConfig) -> bool:
    """Whether the settings name no other node of a quorum: then a cluster may begin with this one."""
    if "controller" not in config.roles:
        return False
    voters = config.list("controller.quorum.voters")
    if voters:
        return len(voters) == 1
    servers = [address_of(text) for text in config.list("controller.quorum.bootstrap.servers")]
    return all(_is_own(config, *server) for server in servers)


def _is_own(config: BrokerConfig, host: str, port: int) -> bool:
    """Whether an address is that of this node's own controller."""
    return any(
        each.port == port and (each.host == host or each.host in EVERYWHERE or {each.host, host} <= LOOPBACK)
        for each in config.controller_listeners
    )


def directory_id_of(store: LogManager, path: str) -> bytes:
    """The id of the folder at this path; zero for one that holds only the metadata log."""
    for folder in store.log_dirs:
        if folder.path == path.rstrip("/") and folder.meta is not None:
            return folder.meta.directory_id
    return bytes(16)


async def mark_running(store: LogManager, broker_epoch: int, loop: asyncio.AbstractEventLoop) -> bool:
    """Mark in every folder that this process runs under this epoch; see `log.log_directory`. Whether all have
    their mark."""
    are_marked = True
    for folder in store.live_log_dirs():
        try:
            await loop.run_in_executor(None, folder.mark_running, broker_epoch)
        except OSError as error:  # whether the disk can be trusted shows where it matters
            logger.warning("%s has no mark of broker epoch %d: %s", folder.path, broker_epoch, error)
            are_marked = False
    return are_marked


async def mark_in_the_end(store: LogManager, broker_epoch: int, loop: asyncio.AbstractEventLoop) -> None:
    """The same, again and again where a disk is full."""
    while not await mark_running(store, broker_epoch, loop):
        await asyncio.sleep(MARK_AGAIN_S)
