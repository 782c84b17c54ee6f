"""Consumer groups without a node: heartbeats in, replies out, time and topics by hand.

Records go through their bytes before they are replayed, and `restart` replays all of them into a machine
that knows nothing, as loading does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinators.group.group_config_manager import (
    ClassicGroupConfig,
    GroupConfig,
    GroupCoordinatorConfig,
)
from headrace.coordinators.group.held_heartbeats import ReleaseHeld
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.coordinators.group.streams.streams_group_config import StreamsGroupConfig
from headrace.coordinators.timer import CoordinatorTimer
from headrace.metadata.image import MetadataImage
from headrace.wire.record_frames import decode_key, decode_value, encode_key, encode_value
from headrace.wire.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headrace.wire.schemas.metadata_records import (
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

GROUP = "g"
Held = dict[str, set[int]]


class HandClock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


@dataclass
class World:
    """One coordinator partition; writes succeed at once unless told otherwise."""

    settings: GroupConfig = field(default_factory=GroupConfig)
    streams_settings: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)
    write_error: ErrorCode = ErrorCode.NONE
    replicates_at_once: bool = True

    def __post_init__(self) -> None:
        self.clock = HandClock()
        self.image = MetadataImage("c")
        self.log: list[tuple[bytes, bytes | None]] = []
        self._offsets = count(1)
        self._ids = count(1)
        self._unreplicated: list[Done] = []
        self.restart()

    def restart(self) -> None:
        """Forget everything, and load it from the log."""
        self.timer = CoordinatorTimer()
        self.shard = GroupCoordinatorShard(
            limits=GroupCoordinatorConfig(ClassicGroupConfig(initial_rebalance_delay_ms=0)),
            clock=self.clock,
            timer=self.timer,
            write=self._write,
            new_uuid=lambda: f"id-{next(self._ids)}",
            image=self.image,
            group_config=lambda group_id: self.settings,
            members_on_node=lambda: sum(len(each.members) for each in self.protocol.groups.values()),
            streams_config=lambda group_id: self.streams_settings,
        )
        self.protocol = self.shard.consumer
        for key, value in self.log:
            self._replay(key, value)
        self.shard.on_loaded()

    def _write(self, records: Sequence[CoordinatorRecord], done: Done, replay: bool) -> None:
        if self.write_error is ErrorCode.NONE:
            for record in records:
                value = None if record.value is None else encode_value(record.value, record.version)
                self.log.append((encode_key(record.key), value))
            if replay:
                for key, value in self.log[-len(records) :]:
                    self._replay(key, value)
        if self.replicates_at_once:
            done(self.write_error)
        else:
            self._unreplicated.append(done)

    def replicate(self) -> None:
        """Other replicas have all that was written so far, and again have it at once from here on."""
        self.replicates_at_once = True
        waiting, self._unreplicated = self._unreplicated, []
        for done in waiting:
            done(ErrorCode.NONE)

    def _replay(self, key: bytes, value: bytes | None) -> None:
        decoded = decode_key(key)
        self.shard.replay(decoded, decode_value(decoded, value))

    @property
    def group(self) -> ConsumerGroup:
        return self.protocol.groups[GROUP]

    # --- topics ---

    def broker(self, node_id: int, rack: str) -> None:
        self.image.replay(RegisterBrokerRecord(broker_id=node_id, rack=rack))
        self._topics_changed()

    def topic(self, name: str, partitions: int, *, replicas: Sequence[Sequence[int]] = ()) -> None:
        """Make a topic, or add partitions to it."""
        if name not in self.image.topics_by_name:
            self.image.replay(TopicRecord(name=name, topic_id=topic_id(name)))
        for index in range(len(self.image.topics_by_name[name].partitions), partitions):
            nodes = list(replicas[index]) if replicas else [1]
            self.image.replay(
                PartitionRecord(
                    partition_id=index, topic_id=topic_id(name), replicas=nodes, isr=nodes, leader=nodes[0]
                )
            )
        self._topics_changed()

    def delete_topic(self, name: str) -> None:
        self.image.replay(RemoveTopicRecord(topic_id=topic_id(name)))
        self._topics_changed()

    def _topics_changed(self) -> None:
        self.image.offset = next(self._offsets)
        self.protocol.request_metadata_refresh()
        self.shard.streams.request_metadata_refresh()

    # --- requests and time ---

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end_ms = self.clock.ms + milliseconds
        while (due := self.timer.next_deadline_ms()) is not None and due <= end_ms:
            self.clock.ms = max(due, self.clock.ms)
            self.timer.run_due(self.clock.ms)
        self.clock.ms = end_ms

    def heartbeat(
        self, member: str, epoch: int, owned: Held | None = None, *, version: int = 1, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        replies = self._ask(member, epoch, owned, version=version, **fields)
        assert len(replies) == 1
        return replies[0]

    def _ask(
        self, member: str, epoch: int, owned: Held | None, *, version: int = 1, **fields: Any
    ) -> list[ConsumerGroupHeartbeatResponse]:
        request = ConsumerGroupHeartbeatRequest(GROUP, member, epoch, **fields)
        if owned is not None:
            request.topic_partitions = [
                TopicPartitions(topic_id(name), sorted(each)) for name, each in owned.items() if each
            ]
        replies: list[ConsumerGroupHeartbeatResponse] = []
        self.shard.group_metadata_manager.consumer_group_heartbeat(
            request,
            client_id=f"client of {member}",
            client_host="/127.0.0.1",
            api_version=version,
            answer=replies.append,
        )
        return replies

    def wait(
        self, member: str, epoch: int, *, margin_ms: int | None = 50
    ) -> tuple[list[ConsumerGroupHeartbeatResponse], ReleaseHeld | None]:
        """A heartbeat without news that may be kept: its replies, and what ends the wait."""
        replies: list[ConsumerGroupHeartbeatResponse] = []
        release = self.shard.group_metadata_manager.consumer_group_heartbeat(
            ConsumerGroupHeartbeatRequest(GROUP, member, epoch),
            client_id=f"client of {member}",
            client_host="/127.0.0.1",
            api_version=1,
            answer=replies.append,
            margin_ms=margin_ms,
        )
        return replies, release

    def join(self, member: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        options = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(topics)}
        return self.heartbeat(member, 0, {}, **(options | fields))

    def join_later(self, member: str, *topics: str) -> list[ConsumerGroupHeartbeatResponse]:
        """Join; the answer comes with `replicate`."""
        self.replicates_at_once = False
        return self._ask(member, 0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=list(topics))


def given(reply: ConsumerGroupHeartbeatResponse) -> Held | None:
    """The assignment in a reply; None where it says that nothing changed."""
    assert reply.error_code == 0, reply
    if reply.assignment is None:
        return None
    return {
        each.topic_id.rstrip(b"\0").decode(): set(each.partitions)
        for each in reply.assignment.topic_partitions
    }


@dataclass
class Client:
    """A well-behaved member: it takes what it is given, lets go of what it must, and says so.

    `lets_go_at_once` off, it keeps partitions that were revoked until `let_go` is called.
    """

    world: World
    id: str
    topics: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    lets_go_at_once: bool = True
    epoch: int = 0
    target: Held = field(default_factory=dict)
    owned: Held = field(default_factory=dict)
    interval_ms: int = 0
    kept: list[ConsumerGroupHeartbeatResponse] = field(default_factory=list)
    release: ReleaseHeld | None = None

    def join(self) -> None:
        self.owned = {}
        self._take(self.world.join(self.id, *self.topics, **self.options))

    def heartbeat(self) -> None:
        """One heartbeat, which reports what is held if that is not what was asked for."""
        self.hear()
        self._take(self.world.heartbeat(self.id, self.epoch, self.owned))

    def stay(self) -> None:
        """One heartbeat without news, which may be kept."""
        self.hear()
        self.kept, self.release = self.world.wait(self.id, self.epoch)

    def hear(self) -> None:
        """Take the answer to a heartbeat that was kept: it gives way to whatever is sent now."""
        if self.release is not None:
            self.release(False)
        kept, self.kept, self.release = self.kept, [], None
        for reply in kept:
            self._take(reply)

    def let_go(self) -> None:
        """Close what was revoked, open what is new."""
        self.owned = {name: set(each) for name, each in self.target.items() if each}

    def _take(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        if reply.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.target, self.epoch = {}, 0
            self.join()
            return
        target = given(reply)
        self.epoch = reply.member_epoch
        self.interval_ms = reply.heartbeat_interval_ms
        if target is not None:
            self.target = target
        if self.lets_go_at_once:
            self.let_go()


def run_until_stable(world: World, *clients: Client, rounds: int = 10) -> None:
    """Let every client come back as it is told to, until the group is stable and nothing moves."""
    for _ in range(rounds):
        world.pass_time(world.settings.assignment_interval_ms)
        for client in clients:
            client.heartbeat()
    assert world.group.state == "Stable"
