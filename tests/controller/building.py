"""A controller for tests: bare cores with made-up brokers, and a whole one-node quorum on a disk."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

from headrace.base.clock import Clock, SystemClock
from headrace.controller.activation import default_bootstrap
from headrace.controller.controller_result import ControllerResult
from headrace.controller.core import ControllerCore
from headrace.controller.drivers.broker_lifecycle_manager import BrokerIdentity, BrokerLifecycleManager
from headrace.controller.drivers.quorum_controller import QuorumController
from headrace.log.disk import Disk
from headrace.metadata.brokers import Endpoint
from headrace.metadata.features import BOOTSTRAP_LEVELS, SUPPORTED
from headrace.metadata.image import MetadataImage
from headrace.metadata.image_writer import entries_of_image, versioned
from headrace.metadata.metadata_loader import MetadataLoader
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.drivers.raft_manager import open_raft_client
from headrace.raft.metadata_log import format_metadata, read_bootstrap
from headrace.wire.schemas import metadata_records as wire
from tests.raft.building import ALONE, DIRECTORY_ID, node_config

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def directory_of(broker_id: int) -> bytes:
    return bytes([0xD0, broker_id]) * 8


def registration(
    broker_id: int, *, rack: str | None = None, fenced: bool = False
) -> wire.RegisterBrokerRecord:
    return wire.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        broker_epoch=100 + broker_id,
        end_points=[wire.BrokerEndpoint(name="PLAINTEXT", host=f"host{broker_id}", port=9092)],
        features=[
            wire.BrokerFeature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
            for name, levels in SUPPORTED.items()
        ],
        rack=rack,
        fenced=fenced,
        log_dirs=[directory_of(broker_id)],
    )


def new_core(*brokers: int, elr: bool = True, **settings: object) -> ControllerCore:
    """A core with these live brokers and the features of a new cluster."""
    core = ControllerCore(CLUSTER_ID, node_config("/nowhere", **settings))
    levels = BOOTSTRAP_LEVELS | ({} if elr else {"eligible.leader.replicas.version": 0})
    core.replay([wire.FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()])
    core.replay([registration(broker) for broker in brokers])
    return core


def apply(core: ControllerCore, decision: ControllerResult[Any]) -> Any:
    """Take a decision in, by way of the bytes of its records, and give its reply."""
    for entry in versioned(decision.records, core.image.features):
        core.replay([entry.record])
    return decision.reply


@dataclass
class Node:
    """A quorum of one with its controller, its broker's image and its broker's life."""

    raft: KafkaRaftClient
    controller: QuorumController
    image: MetadataImage
    lifecycle: BrokerLifecycleManager
    metadata_loader: MetadataLoader

    async def start(self) -> None:
        await self.raft.start()
        await self.lifecycle.register([Endpoint("PLAINTEXT", "localhost", 9092)])
        await self.lifecycle.unfence()

    async def stop(self) -> None:
        await self.lifecycle.shut_down()
        self.controller.stop()
        await self.raft.stop()


def format_node(disk: Disk, directory: str) -> None:
    entries = list(versioned(default_bootstrap(), {}))
    format_metadata(disk, directory, bootstrap=entries, voters=ALONE, now_ms=SystemClock().now_ms())


def open_node(
    disk: Disk,
    directory: str,
    *,
    incarnation: int = 1,
    previous_epoch: int = -1,
    directory_id: bytes = DIRECTORY_ID,
    loop: asyncio.AbstractEventLoop | None = None,
    clock: Clock | None = None,
    rng: Random | None = None,
    **settings: object,
) -> Node:
    """A node that is not started yet, in a directory that was formatted."""
    loop = loop or asyncio.get_running_loop()
    clock = clock or SystemClock()
    rng = rng or Random(7)
    config = node_config(directory, **settings)
    image = MetadataImage(CLUSTER_ID)
    raft = open_raft_client(
        config,
        directory_id=directory_id,
        disk=disk,
        loop=loop,
        clock=clock,
        rng=rng,
        entries_of_image=lambda: entries_of_image(image),
        on_failure=lambda error: None,
    )
    bootstrap = read_bootstrap(disk, directory)
    controller = QuorumController(
        raft,
        config,
        cluster_id=CLUSTER_ID,
        bootstrap=default_bootstrap() if bootstrap is None else bootstrap.records,
        committed=image,
        incarnation_id=b"",
        loop=loop,
        clock=clock,
        rng=rng,
    )
    metadata_loader = MetadataLoader(image)
    raft.register_listener(controller)
    raft.register_listener(metadata_loader)
    identity = BrokerIdentity(
        1, CLUSTER_ID, bytes([incarnation]) * 16, (directory_id,), previous_epoch=previous_epoch
    )
    lifecycle = BrokerLifecycleManager(
        controller, identity, config, replayed_to=lambda: image.offset, loop=loop, clock=clock
    )
    return Node(raft, controller, image, lifecycle, metadata_loader)
