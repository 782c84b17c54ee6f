"""The controller's own care for leaders: when it looks, how it goes on, and that it stops."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller import partition_control
from headrace.controller.controller_result import ControllerResult
from headrace.controller.drivers.periodic_tasks import PeriodicTasks
from headrace.testing.loop import SimulatedLoop
from tests.controller.test_rebalancing import core_with, leaders, partition


class Desk:
    """A core whose decisions are taken in at once."""

    def __init__(self, *leads: int) -> None:
        self.loop = SimulatedLoop(seed=1)
        self.core = core_with(*map(partition, leads))
        self.asked = 0
        self.is_active = True
        self.upkeep = PeriodicTasks(self.decide, lambda: self.core.cluster, loop=self.loop, wall_ms=lambda: 0)

    def decide(self, decide: Callable[[], ControllerResult[bool]]) -> "asyncio.Future[bool]":
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        self.asked += 1
        decision = decide()
        self.core.replay(decision.records)
        answer: asyncio.Future[bool] = self.loop.create_future()
        answer.set_result(decision.reply)
        return answer

    def pass_time(self, seconds: float) -> None:
        self.loop.call_later(seconds, self.loop.stop)
        self.loop.run_forever()


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(2, 3, 1)
    yield desk
    assert desk.loop.uncaught == []
    desk.loop.kill()


def test_first_replicas_lead_again_after_five_minutes(desk: Desk) -> None:
    desk.upkeep.start()
    desk.pass_time(299)
    assert leaders(desk.core) == [2, 3, 1]
    desk.pass_time(2)
    assert leaders(desk.core) == [1, 1, 1]


def test_what_is_more_than_one_step_goes_on_soon(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_control, "ELECTIONS_MAX", 1)
    desk.upkeep.start()
    desk.pass_time(301)
    assert leaders(desk.core) == [1, 1, 1]


def test_not_where_it_is_switched_off(desk: Desk) -> None:
    desk.upkeep.start()
    desk.core.cluster.config._values["auto.leader.rebalance.enable"] = False
    desk.pass_time(1_000)
    assert leaders(desk.core) == [2, 3, 1]


def test_a_controller_that_is_not_active_tries_again_later(desk: Desk) -> None:
    desk.is_active = False
    desk.upkeep.start()
    desk.pass_time(310)
    desk.is_active = True
    desk.pass_time(300)
    assert leaders(desk.core) == [1, 1, 1]


def test_nothing_happens_after_a_stop(desk: Desk) -> None:
    desk.upkeep.start()
    desk.upkeep.stop()
    desk.pass_time(1_000)
    assert desk.asked == 0
