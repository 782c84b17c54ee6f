"""A quorum of one for tests: its settings, a follower that notes what it is told, and a place to run it."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from headrace.base.clock import Clock, SystemClock
from headrace.log.disk import Disk
from headrace.raft.drivers.raft_client import Commit, KafkaRaftClient
from headrace.raft.drivers.raft_manager import open_raft_client
from headrace.raft.metadata_log import format_metadata
from headrace.raft.snapshots import Snapshot
from headrace.raft.voters import Voter, VoterSet
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.record_frames import ApiMessageAndVersion
from headrace.wire.schemas.metadata_records import FeatureLevelRecord, TopicRecord

DIRECTORY_ID = b"D" * 16
ALONE = VoterSet([Voter(1, DIRECTORY_ID, {"CONTROLLER": ("localhost", 9093)})])
BOOTSTRAP = [ApiMessageAndVersion(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)]


def node_config(directory: str, **settings: object) -> BrokerConfig:
    """The settings of a node that is broker and controller; names with _ for dots."""
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "log.dirs": directory,
    }
    properties |= {name.replace("_", "."): str(value) for name, value in settings.items()}
    return BrokerConfig(properties)


@dataclass
class Follower:
    """Notes what a subscriber is told; its snapshot is the list of topics."""

    snapshots: list[Snapshot] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    leaders: list[tuple[int, int]] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    prepared: list[Any] = field(default_factory=list)
    preparing: Snapshot | None = None
    failures: list[Exception] = field(default_factory=list)

    def prepare(self, snapshot: Snapshot, records: Sequence[Any]) -> None:
        if self.preparing is not snapshot:
            self.preparing, self.prepared = snapshot, []
        self.prepared += records

    def handle_load_snapshot(self, snapshot: Snapshot) -> None:
        assert self.preparing is snapshot
        self.snapshots.append(snapshot)
        self.records, self.prepared, self.preparing = self.prepared, [], None

    def handle_commit(self, commit: Commit) -> None:
        self.commits.append(commit)
        self.records += commit.records

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))

    def entries(self) -> Iterable[ApiMessageAndVersion]:
        return [ApiMessageAndVersion(record, 0) for record in self.records]

    @property
    def names(self) -> list[str]:
        return [record.name for record in self.records if isinstance(record, TopicRecord)]


def format_alone(disk: Disk, directory: str) -> None:
    format_metadata(disk, directory, bootstrap=BOOTSTRAP, voters=ALONE, now_ms=SystemClock().now_ms())


def open_driver(
    disk: Disk,
    config: BrokerConfig,
    follower: Follower,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    clock: Clock | None = None,
    directory_id: bytes = DIRECTORY_ID,
) -> KafkaRaftClient:
    driver = open_raft_client(
        config,
        directory_id=directory_id,
        disk=disk,
        loop=loop or asyncio.get_running_loop(),
        clock=clock or SystemClock(),
        rng=Random(7),
        entries_of_image=follower.entries,
        on_failure=follower.failures.append,
    )
    driver.register_listener(follower)
    return driver


def topics(names: Sequence[str]) -> list[ApiMessageAndVersion]:
    return [
        ApiMessageAndVersion(TopicRecord(name=name, topic_id=name.encode().ljust(16, b"-")[:16]), 0)
        for name in names
    ]
