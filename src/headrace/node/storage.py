"""A node's folders at its start: locked, formatted where they are new, and known to be this node's."""

import random
from collections.abc import Callable

from headrace.base.clock import Clock
from headrace.base.ids import uuid_text
from headrace.controller.activation import default_bootstrap
from headrace.controller.log_entries import versioned
from headrace.log.disk import Disk
from headrace.log.log_folder import LogFolder
from headrace.log.log_store import LogStore
from headrace.raft.formatting import format_metadata
from headrace.raft.voters import Voter, VoterSet
from headrace.settings.broker_config import BrokerConfig


def open_folders(
    config: BrokerConfig,
    *,
    disk: Disk,
    clock: Clock,
    rng: random.Random,
    on_folder_failed: Callable[[LogFolder], None],
) -> tuple[LogStore, str]:
    """The log store, its folders locked and identified but no log open yet, and the cluster's id.

    A new folder joins the cluster of the others; where all are new a cluster begins.
    """
    store = LogStore(disk, config, clock, rng, on_folder_failed=on_folder_failed)
    store.lock()
    try:
        return store, _identify(store, config, disk=disk, clock=clock, rng=rng)
    except BaseException:
        store.unlock()
        raise


def _identify(store: LogStore, config: BrokerConfig, *, disk: Disk, clock: Clock, rng: random.Random) -> str:
    """Give new folders their identity, check that of the others, and tell the cluster's id."""
    known = [folder.meta for folder in store.online_folders() if folder.meta is not None]
    cluster_id = known[0].cluster_id if known else uuid_text(rng.randbytes(16))
    # Ids are drawn before formatting because the first voters' record names the directory.
    drawn = {folder.path: rng.randbytes(16) for folder in store.online_folders() if folder.meta is None}
    if config.metadata_log_dir.rstrip("/") in drawn:
        _format(config, disk, clock, directory_id=drawn[config.metadata_log_dir.rstrip("/")])
    ids = iter(drawn.values())
    store.identify(cluster_id, config.node_id, lambda: next(ids))
    return cluster_id


def directory_id_of(store: LogStore, path: str) -> bytes:
    """The id of the folder at this path; zero for one that holds only the metadata log."""
    for folder in store.folders:
        if folder.path == path.rstrip("/") and folder.meta is not None:
            return folder.meta.directory_id
    return bytes(16)


def _format(config: BrokerConfig, disk: Disk, clock: Clock, *, directory_id: bytes) -> None:
    """Give a new metadata folder its first files, as Kafka's format tool would."""
    voters = None
    if not config.list("controller.quorum.voters"):
        endpoints = {each.name: (each.host, each.port) for each in config.controller_listeners}
        voters = VoterSet([Voter(config.node_id, directory_id, endpoints)])
    entries = list(versioned(default_bootstrap(), {}))
    format_metadata(disk, config.metadata_log_dir, bootstrap=entries, voters=voters, now_ms=clock.now_ms())
