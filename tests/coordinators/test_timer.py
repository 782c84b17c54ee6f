"""Named deadlines: moved by setting them again, cheap to move often."""

from headrace.coordinators.timer import CoordinatorTimer


def test_actions_run_in_order_of_deadline_once() -> None:
    timer, ran = CoordinatorTimer(), []
    timer.schedule("b", 20, lambda now: ran.append(("b", now)))
    timer.schedule("a", 10, lambda now: ran.append(("a", now)))
    timer.run_due(5)
    assert ran == []
    timer.run_due(25)
    timer.run_due(30)
    assert ran == [("a", 25), ("b", 25)]


def test_setting_again_moves_and_cancel_drops() -> None:
    timer, ran = CoordinatorTimer(), []
    timer.schedule("a", 10, lambda now: ran.append("old"))
    timer.schedule("a", 30, lambda now: ran.append("new"))
    timer.schedule("b", 10, lambda now: ran.append("b"))
    timer.cancel("b")
    assert timer.next_deadline_ms() == 30
    timer.run_due(30)
    assert ran == ["new"]


def test_heartbeats_do_not_grow_the_heap() -> None:
    timer = CoordinatorTimer()
    for moment in range(10_000):
        timer.schedule("member", moment, lambda now: None)
    assert len(timer._heap) < 100
    assert timer.next_deadline_ms() == 9_999


def test_an_action_may_set_its_own_key_again() -> None:
    timer, ran = CoordinatorTimer(), []

    def again(now: int) -> None:
        ran.append(now)
        if len(ran) < 3:
            timer.schedule("a", now + 10, again)

    timer.schedule("a", 10, again)
    timer.run_due(10)
    timer.run_due(20)
    timer.run_due(30)
    assert ran == [10, 20, 30]
