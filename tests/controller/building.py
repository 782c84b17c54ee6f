"""A controller for tests: bare cores with made-up brokers, and a whole one-node quorum on a disk."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

from headrace.base.clock import Clock, SystemClock
from headrace.controller.activation import default_bootstrap
from headrace.controller.broker_lifecycle import BrokerLifecycle, Identity
from headrace.controller.core import ControllerCore
from headrace.controller.decision import Decision
from headrace.controller.driver import Controller
from headrace.controller.log_entries import entries_of_image, versioned
from headrace.log.disk import Disk
from headrace.metadata.brokers import Endpoint
from headrace.metadata.features import BOOTSTRAP_LEVELS, SUPPORTED
from headrace.metadata.image import ClusterImage
from headrace.metadata.publisher import ImagePublisher
from headrace.raft.driver import RaftDriver
from headrace.raft.formatting import format_metadata, read_bootstrap
from headrace.raft.member import open_member
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


def apply(core: ControllerCore, decision: Decision[Any]) -> Any:
    """Take a decision in, by way of the bytes of its records, and give its reply."""
    for entry in versioned(decision.records, core.image.features):
        core.replay([entry.record])
    return decision.reply


@dataclass
class Node:
    """A quorum of one with its controller, its broker's image and its broker's life."""

    raft: RaftDriver
    controller: Controller
    image: ClusterImage
    lifecycle: BrokerLifecycle
    publisher: ImagePublisher

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
    image = ClusterImage(CLUSTER_ID)
    raft = open_member(
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
    controller = Controller(
        raft,
        config,
        cluster_id=CLUSTER_ID,
        bootstrap=default_bootstrap() if bootstrap is None else bootstrap.records,
        committed=image,
        loop=loop,
        clock=clock,
        rng=rng,
    )
    publisher = ImagePublisher(image)
    raft.subscribe(controller)
    raft.subscribe(publisher)
    identity = Identity(
        1, CLUSTER_ID, bytes([incarnation]) * 16, (directory_id,), previous_epoch=previous_epoch
    )
    lifecycle = BrokerLifecycle(
        controller, identity, config, replayed_to=lambda: image.offset, loop=loop, clock=clock
    )
    return Node(raft, controller, image, lifecycle, publisher)
