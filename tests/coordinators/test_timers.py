"""Named deadlines: moved by setting them again, cheap to move often."""

from headrace.coordinators.timers import Timers


def test_actions_run_in_order_of_deadline_once() -> None:
    timers, ran = Timers(), []
    timers.set("b", 20, lambda now: ran.append(("b", now)))
    timers.set("a", 10, lambda now: ran.append(("a", now)))
    timers.run_due(5)
    assert ran == []
    timers.run_due(25)
    timers.run_due(30)
    assert ran == [("a", 25), ("b", 25)]


def test_setting_again_moves_and_cancel_drops() -> None:
    timers, ran = Timers(), []
    timers.set("a", 10, lambda now: ran.append("old"))
    timers.set("a", 30, lambda now: ran.append("new"))
    timers.set("b", 10, lambda now: ran.append("b"))
    timers.cancel("b")
    assert timers.next_deadline_ms() == 30
    timers.run_due(30)
    assert ran == ["new"]


def test_heartbeats_do_not_grow_the_heap() -> None:
    timers = Timers()
    for moment in range(10_000):
        timers.set("member", moment, lambda now: None)
    assert len(timers._heap) < 100
    assert timers.next_deadline_ms() == 9_999


def test_an_action_may_set_its_own_key_again() -> None:
    timers, ran = Timers(), []

    def again(now: int) -> None:
        ran.append(now)
        if len(ran) < 3:
            timers.set("a", now + 10, again)

    timers.set("a", 10, again)
    timers.run_due(10)
    timers.run_due(20)
    timers.run_due(30)
    assert ran == [10, 20, 30]
