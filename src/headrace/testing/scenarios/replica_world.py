"""The surroundings of the replication scenario: wires between brokers that lose, delay and reorder, and a
controller that never fails but whose word travels slowly.

The controller is the real core (`ControllerCore`), on the driver's loop. Its log is a list; each broker is
told of every entry in order, each after a delay of its own, so that at any moment brokers disagree on who
leads. Requests go through their real encoding.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from headrace.base.chunks import FileSlice
from headrace.base.errors import ApiError
from headrace.controller import partition_control
from headrace.controller.cluster_control import fence, register_broker, unfence
from headrace.controller.controller_result import ControllerResult
from headrace.controller.core import ControllerCore
from headrace.metadata.features import BOOTSTRAP_LEVELS, SUPPORTED
from headrace.metadata.image import MetadataRecord
from headrace.metadata.topics import PartitionImage
from headrace.settings.broker_config import BrokerConfig
from headrace.testing.loop import SimulatedLoop
from headrace.testing.world import World
from headrace.wire.apis import API
from headrace.wire.codec import decode, encode_chunks
from headrace.wire.notation import schema_of
from headrace.wire.schemas.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from headrace.wire.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener
from headrace.wire.schemas.elect_leaders import ElectLeadersRequest
from headrace.wire.schemas.metadata_records import FeatureLevelRecord, PartitionRecord, TopicRecord

T = TypeVar("T")

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
CONTROLLER: Final = 0
LISTENER: Final = "PLAINTEXT"


def settings(node_id: int, *, min_in_sync: int) -> BrokerConfig:
    return BrokerConfig(
        {
            "node.id": str(node_id),
            "log.dirs": "/data",
            "min.insync.replicas": str(min_in_sync),
            "log.segment.delete.delay.ms": "500",
        },
        check=False,
    )


def through_the_wire(message: T, version: int) -> T:
    """The message as the other side reads it: nothing is shared with the one that was sent."""
    chunks = encode_chunks(message, version)
    data = b"".join(chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks)
    return decode(type(message), version, data)


def newest(request: object) -> int:
    key = schema_of(type(request)).api_key
    assert key is not None
    return API[key].max_version


class Wires:
    """Between brokers, clients and the controller. A message arrives after a while, or not at all."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.scheduler.random_for("wires")
        self.loss = 0.0
        self.slowest_s = 0.002
        self.cut: set[tuple[int, int]] = set()

    def carry(self, sender: int, receiver: int, loop: SimulatedLoop, act: Callable[[], None]) -> None:
        """Have `act` happen on the receiver's loop; each message takes its own time."""
        if (sender, receiver) in self.cut or self.rng.random() < self.loss:
            return
        delay_s = self.rng.uniform(0.0001, self.slowest_s)
        if self.rng.random() < 0.05:
            delay_s *= 10
        self.world.scheduler.after(delay_s, lambda: _run_on(loop, act), owner=loop)


def _run_on(loop: SimulatedLoop, act: Callable[[], None]) -> None:
    if not loop.dead:
        loop.call_soon(act)


class SlowController:
    """The active controller of the run."""

    def __init__(self, world: World, wires: Wires, *, min_in_sync: int) -> None:
        self.world = world
        self.wires = wires
        self.core = ControllerCore(CLUSTER_ID, settings(CONTROLLER, min_in_sync=min_in_sync))
        self.log: list[list[MetadataRecord]] = []
        self.rng = world.scheduler.random_for("controller")
        self.on_commit: list[Callable[[], None]] = []
        levels = [FeatureLevelRecord(name=name, feature_level=at) for name, at in BOOTSTRAP_LEVELS.items()]
        self.commit(ControllerResult(levels, None))

    def commit(self, decision: ControllerResult[T]) -> T:
        if decision.records:
            records = list(decision.records)
            self.core.replay(records)
            self.log.append(records)
            for tell in self.on_commit:
                tell()
        return decision.reply

    # -- what brokers ask ------------------------------------------------------------------------------------

    def register(self, node_id: int, incarnation: bytes, directory: bytes, previous_epoch: int) -> int:
        """A broker's new process; its epoch. It is unfenced at once: the harness waits with its messages."""
        decision = register_broker(
            self.core.cluster,
            self.core.sessions,
            BrokerRegistrationRequest(
                broker_id=node_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=incarnation,
                listeners=[Listener(LISTENER, f"broker{node_id}", 9092, 0)],
                features=[Feature(name, levels.min, levels.max) for name, levels in SUPPORTED.items()],
                log_dirs=[directory],
                previous_broker_epoch=previous_epoch,
            ),
            next_offset=len(self.log),
            now_ms=int(self.world.virtual_s * 1000) + 3_600_000 * len(self.log),
        )
        epoch = self.commit(decision).broker_epoch
        self.unfence(node_id)
        return epoch

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        try:
            return self.commit(partition_control.alter_partition(self.core.cluster, request, api_version=3))
        except ApiError as error:
            return AlterPartitionResponse(error_code=error.code)

    # -- what happens ----------------------------------------------------------------------------------------

    def fence(self, node_id: int) -> None:
        """Its session is over, whether it is gone or only slow."""
        broker = self.core.image.brokers[node_id]
        if not broker.fenced:
            self.commit(ControllerResult(list(fence(self.core.cluster, broker)), None))

    def unfence(self, node_id: int) -> None:
        broker = self.core.image.brokers[node_id]
        if broker.fenced:
            self.commit(ControllerResult(unfence(self.core.cluster, broker), None))

    def prefer_first_replicas(self) -> None:
        self.commit(partition_control.elect_leaders(self.core.cluster, ElectLeadersRequest(election_type=0)))

    def create_topic(self, name: str, topic_id: bytes, replicas: list[list[int]]) -> None:
        made: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
        for index, nodes in enumerate(replicas):
            directories = [self.core.cluster.default_directory(node) for node in nodes]
            made.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=nodes,
                    isr=nodes,
                    leader=nodes[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=directories,
                )
            )
        self.commit(ControllerResult(made, None))

    def partition(self, name: str, index: int) -> PartitionImage:
        return self.core.image.topics_by_name[name].partitions[index]


class Messenger:
    """Asks of one process to another: each is answered once at most, and fails where it is not in time."""

    def __init__(self, wires: Wires, node_id: int, loop: SimulatedLoop) -> None:
        self.wires = wires
        self.node_id = node_id
        self.loop = loop

    def ask(
        self,
        receiver: int,
        receiving_loop: Callable[[], SimulatedLoop | None],
        serve: Callable[[Any], Any],
        request: Any,
        *,
        timeout_s: float,
        take: Callable[[Any], None] | None = None,
    ) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self.loop.create_future()
        timer = self.loop.call_later(timeout_s, self._fail, answer)
        there = receiving_loop()
        version = newest(request)

        def arrived(response: Any) -> None:
            if not answer.done():
                timer.cancel()
                if take is not None:
                    take(response)
                answer.set_result(response)

        def send_back(result: Any) -> None:
            copied = through_the_wire(result, version)
            self.wires.carry(receiver, self.node_id, self.loop, lambda: arrived(copied))

        def receive() -> None:
            result = serve(sent)
            if asyncio.isfuture(result):
                result.add_done_callback(lambda done: send_back(done.result()))
            else:
                send_back(result)

        sent = through_the_wire(request, version)
        if there is not None:
            self.wires.carry(self.node_id, receiver, there, receive)
        return answer

    @staticmethod
    def _fail(answer: "asyncio.Future[Any]") -> None:
        if not answer.done():
            answer.set_exception(ConnectionError("no answer"))
