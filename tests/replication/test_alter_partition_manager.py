"""Proposals on their way to the controller: one request at a time, and what each kind of answer does."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.metadata.topics import PartitionImage
from headrace.replication.drivers.alter_partition_manager import AlterPartitionManager
from headrace.replication.leader_state import ReplicaContext
from headrace.replication.partition import Partition
from headrace.testing.loop import SimulatedLoop
from headrace.wire.schemas.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.replication.building import NODE, OTHER, Bench, topic_id


class Desk:
    """Two partitions led here, a loop, and a controller that a test plays."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop(seed=1)
        self.requests: list[AlterPartitionRequest] = []
        self.answers: list[asyncio.Future[AlterPartitionResponse]] = []
        self.refuses = False
        self.changes = AlterPartitionManager(self.send, node_id=NODE, loop=self.loop)
        bench = Bench()
        bench.open()
        context = ReplicaContext(10_000, lambda broker: 7, self.changes.submit)
        self.partitions = []
        for index in range(2):
            where = TopicPartition("t", index)
            log = bench.store.create(where, topic_id(1), bench.config_of("t"))
            partition = Partition(
                where, topic_id(1), log, node_id=NODE, on_advance=lambda _: None, context=context
            )
            partition.follow_metadata(PartitionImage((NODE, OTHER), (NODE,), NODE, 3, partition_epoch=4))
            self.partitions.append(partition)

    def send(self, request: AlterPartitionRequest) -> "asyncio.Future[AlterPartitionResponse]":
        if self.refuses:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        self.requests.append(request)
        self.answers.append(self.loop.create_future())
        return self.answers[-1]

    def join(self, index: int) -> None:
        """The other replica of a partition has caught up."""
        self.partitions[index].follower_fetched(OTHER, offset=0, log_start_offset=0, broker_epoch=7, now_ms=1)

    def answer(self, *results: ResponsePartitionData) -> None:
        topics = [ResponseTopicData(topic_id(1), list(results))]
        self.answers[-1].set_result(AlterPartitionResponse(topics=topics))
        self.run()

    def run(self, seconds: float = 0.5) -> None:
        self.loop.call_later(seconds, self.loop.stop)
        self.loop.run_forever()

    def proposed(self, number: int = -1) -> list[tuple[int, list[int]]]:
        return [
            (data.partition_index, [state.broker_id for state in data.new_isr_with_epochs])
            for data in self.requests[number].topics[0].partitions
        ]


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    assert desk.loop.uncaught == []
    desk.loop.kill()


def accepted(index: int, epoch: int = 5) -> ResponsePartitionData:
    return ResponsePartitionData(index, 0, NODE, 3, [NODE, OTHER], 0, epoch)


def refused(index: int, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(index, code)


def test_nothing_is_asked_before_the_broker_is_registered(desk: Desk) -> None:
    desk.join(0)
    desk.run()
    assert not desk.requests
    desk.changes.begin(70)
    desk.run()
    assert (desk.requests[0].broker_id, desk.requests[0].broker_epoch) == (NODE, 70)


def test_what_comes_together_is_asked_together(desk: Desk) -> None:
    desk.changes.begin(70)
    desk.join(0)
    desk.join(1)
    desk.run()
    assert desk.proposed() == [(0, [NODE, OTHER]), (1, [NODE, OTHER])]
    data = desk.requests[0].topics[0].partitions[0]
    assert (data.leader_epoch, data.partition_epoch) == (3, 4)
    assert [state.broker_epoch for state in data.new_isr_with_epochs] == [7, 7]
    desk.answer(accepted(0), accepted(1))
    assert [each.in_sync_count for each in desk.partitions] == [2, 2]
    assert len(desk.requests) == 1


def test_one_request_at_a_time(desk: Desk) -> None:
    desk.changes.begin(70)
    desk.join(0)
    desk.run()
    desk.join(1)
    desk.run()
    assert len(desk.requests) == 1
    desk.answer(accepted(0))
    assert desk.proposed() == [(1, [NODE, OTHER])]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NEW_LEADER_ELECTED],
)
def test_who_is_behind_waits_for_the_metadata_log(desk: Desk, code: ErrorCode) -> None:
    desk.changes.begin(70)
    desk.join(0)
    desk.run()
    desk.answer(refused(0, code))
    assert len(desk.requests) == 1
    partition = desk.partitions[0]
    assert partition.proposal() is not None  # whatever comes of it counts for the high watermark
    partition.follow_metadata(PartitionImage((NODE, OTHER), (NODE,), NODE, 3, partition_epoch=6))
    assert partition.proposal() is None
    desk.join(0)
    desk.run()
    assert desk.requests[-1].topics[0].partitions[0].partition_epoch == 6


def test_a_replica_that_the_controller_does_not_take_is_given_up(desk: Desk) -> None:
    desk.changes.begin(70)
    desk.join(0)
    desk.run()
    desk.answer(refused(0, ErrorCode.INELIGIBLE_REPLICA))
    assert desk.partitions[0].proposal() is None
    assert len(desk.requests) == 1


def test_given_up_also_where_the_replica_has_another_epoch_by_now(desk: Desk) -> None:
    desk.changes.begin(70)
    desk.join(0)
    desk.run()
    desk.partitions[0].follower_fetched(OTHER, offset=0, log_start_offset=0, broker_epoch=8, now_ms=2)
    desk.answer(refused(0, ErrorCode.INELIGIBLE_REPLICA))
    assert desk.partitions[0].proposal() is None


def test_a_request_that_fails_is_made_again(desk: Desk) -> None:
    desk.changes.begin(70)
    desk.refuses = True
    desk.join(0)
    desk.run(0.02)
    desk.refuses = False
    desk.run()
    assert len(desk.requests) == 1
    desk.answers[0].set_exception(ConnectionError("gone"))
    desk.run()
    assert len(desk.requests) == 2
    desk.answers[1].set_result(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    desk.run()
    assert len(desk.requests) == 3
    desk.answer()  # says nothing of the partition
    assert len(desk.requests) == 4
    desk.answer(accepted(0))
    assert desk.partitions[0].in_sync_count == 2


def test_nothing_is_asked_after_a_stop(desk: Desk) -> None:
    desk.changes.begin(70)
    desk.join(0)
    desk.changes.stop()
    desk.run()
    assert not desk.requests


def test_a_partition_that_is_led_elsewhere_by_then_is_not_asked_for(desk: Desk) -> None:
    desk.join(0)
    changed: Any = PartitionImage((NODE, OTHER), (NODE,), OTHER, 4, partition_epoch=5)
    desk.partitions[0].follow_metadata(changed)
    desk.changes.begin(70)
    desk.run()
    assert not desk.requests
