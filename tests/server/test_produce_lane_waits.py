"""Runs of Produce requests that wait for replicas: answered together, or one by one where that fails."""

import asyncio
from types import SimpleNamespace

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_TOPIC_ID, TopicPartition
from headrace.records.kernels.produce import RunHead
from headrace.server.authorizer import AllowAll
from headrace.server.produce_lane import ProduceLane, _Target
from headrace.server.purgatory import Purgatory
from headrace.telemetry.metrics.request_metrics import RequestChannelMetrics
from headrace.wire.framing import read_response
from headrace.wire.schemas.produce import ProduceResponse

VERSION = 9
PLACE = TopicPartition("t", 0)
TIMEOUT_MS = 1_000
# Three requests of 2, 3 and 5 records, behind 100 others.
ROWS = [(0, number, 0, 0, count) for number, count in ((7, 2), (8, 3), (9, 5))]
FIRST_OFFSET = 100


class Run:
    """A run that is in the leader's log and waits for the others."""

    def __init__(self, loop):
        self.waiting = Purgatory(loop)
        self.log = SimpleNamespace(
            high_watermark=100, recovery_point=0, failure=None, log_start_offset=40, log_end_offset=110
        )
        self.partition = SimpleNamespace(
            topic_partition=PLACE,
            leader_epoch=3,
            is_leader=True,
            log=self.log,
            has_enough_in_sync=lambda: True,
        )
        self.sent = None
        self.late = []
        head = dict.fromkeys(RunHead._fields, 0)
        run = RunHead(**head | {"version": VERSION, "partition": 0, "timeout_ms": TIMEOUT_MS, "requests": 3})
        lane = ProduceLane(
            SimpleNamespace(
                purgatory=self.waiting, request_log=self, loop=loop, quotas=None, authorizer=AllowAll()
            )
        )
        target = _Target(PLACE, NO_TOPIC_ID, VERSION)
        connection = SimpleNamespace(attached=None, begin_reply=lambda: SimpleNamespace(send=self._send))
        lane._reply_when_replicated(connection, target, self.partition, run, ROWS, FIRST_OFFSET, 0, None)

    slow_s = 60.0
    metrics = RequestChannelMetrics()

    def tell_late(self, partition, timeout_ms):
        self.late.append((partition, timeout_ms))

    def _send(self, chunks, watch):
        self.sent = b"".join(chunks)

    async def replicated_to(self, offset):
        self.log.high_watermark = offset
        self.waiting.notify(PLACE)
        await asyncio.sleep(0.001)

    def answers(self):
        """The requests' numbers with what became of each."""
        found, at = [], 0
        while at < len(self.sent):
            end = at + 4 + int.from_bytes(self.sent[at : at + 4])
            frame = self.sent[at + 4 : end]
            (topic,) = read_response(ProduceResponse, VERSION, frame).responses
            (answer,) = topic.partition_responses
            assert answer.log_start_offset == 40
            number = int.from_bytes(frame[:4])
            found.append((number, ErrorCode(answer.error_code), answer.base_offset))
            at = end
        return found


def test_a_run_is_answered_when_the_replicas_have_all_of_it(loop):
    async def main():
        run = Run(loop)
        await run.replicated_to(105)
        assert run.sent is None
        await run.replicated_to(110)
        none = ErrorCode.NONE
        assert run.answers() == [(7, none, 100), (8, none, 102), (9, none, 105)]

    loop.run_until_complete(main())


def test_what_is_replicated_when_the_time_is_up_is_acknowledged(loop):
    async def main():
        run = Run(loop)
        await run.replicated_to(105)
        await asyncio.sleep(2 * TIMEOUT_MS / 1000)
        late = ErrorCode.REQUEST_TIMED_OUT
        assert run.answers() == [(7, ErrorCode.NONE, 100), (8, ErrorCode.NONE, 102), (9, late, 105)]
        assert run.late == [(PLACE, TIMEOUT_MS)]

    loop.run_until_complete(main())


@pytest.mark.parametrize("change", [{"is_leader": False}, {"leader_epoch": 4}])
def test_what_another_leader_may_have_replaced_is_not_acknowledged(loop, change):
    async def main():
        run = Run(loop)
        vars(run.partition).update(change)
        await run.replicated_to(110)
        assert {code for _, code, _ in run.answers()} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    loop.run_until_complete(main())


def test_too_few_in_sync_is_told_to_all(loop):
    async def main():
        run = Run(loop)
        run.partition.has_enough_in_sync = lambda: False
        await run.replicated_to(110)
        assert {code for _, code, _ in run.answers()} == {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}

    loop.run_until_complete(main())
