"""The phases of a request, from a clock that the test moves: each has its own time, and they add up."""

from headrace.telemetry.metrics.histogram import Histogram
from headrace.telemetry.metrics.request_metrics import PHASES, KindMetrics, RequestTimes

MS = 1_000_000


class Watch:
    """A request under way, and the clock that it looks at."""

    def __init__(self) -> None:
        self.kind = KindMetrics()
        self.now_ns = 5 * MS
        self.times = RequestTimes(self.kind, lambda: self.now_ns, read_ns=2 * MS, request_bytes=300)

    def passes(self, ms: int) -> None:
        self.now_ns += ms * MS

    def found(self) -> dict[str, float]:
        """Milliseconds of each phase; each was noted once."""
        histograms: dict[str, Histogram] = {phase: getattr(self.kind, phase) for phase in PHASES}
        assert {sum(each.counts) for each in histograms.values()} == {1}
        return {phase: round(each.sum, 6) for phase, each in histograms.items()}


def test_one_that_is_answered_at_once() -> None:
    watch = Watch()
    watch.passes(4)
    watch.times.replied(throttle_ms=70)
    watch.passes(5)
    watch.times.offered()
    watch.passes(6)
    watch.times.offered()  # the next piece
    watch.passes(1)
    watch.times.response_bytes = 90
    watch.times.sent()
    assert watch.found() == {
        "request_queue": 3,
        "local": 4,
        "remote": 0,
        "throttle": 70,
        "response_queue": 5,
        "response_send": 7,
        "total": 19,
    }
    assert (watch.kind.request_bytes.sum, watch.kind.response_bytes.sum) == (300, 90)


def test_one_that_waits() -> None:
    watch = Watch()
    watch.passes(1)
    watch.times.pause()
    watch.passes(100)
    watch.times.replied()
    watch.times.sent()
    found = watch.found()
    assert (found["local"], found["remote"], found["total"]) == (1, 100, 104)


def test_one_that_is_worked_on_in_slices() -> None:
    watch = Watch()

    def work():
        for _ in range(3):
            watch.passes(2)
            yield
        watch.passes(2)
        watch.times.replied()
        watch.times.sent()
        yield
        watch.passes(50)  # freeing what it was made of is not its time

    watch.times.pause()
    for _ in watch.times.in_slices(work()):
        watch.passes(10)  # others' turns
    found = watch.found()
    assert (found["local"], found["remote"]) == (8, 30)


def test_work_that_leaves_its_answer_to_others() -> None:
    watch = Watch()

    def work():
        watch.passes(2)
        yield
        watch.passes(3)

    for _ in watch.times.in_slices(work()):
        pass
    watch.passes(40)
    watch.times.replied()
    watch.times.sent()
    found = watch.found()
    assert (found["local"], found["remote"]) == (5, 40)


def test_a_run_shares_its_local_time_and_its_reply() -> None:
    watch = Watch()
    watch.times.requests = 4
    watch.passes(8)
    watch.times.replied()
    watch.times.response_bytes = 400
    watch.times.sent()
    assert watch.found()["local"] == 2
    assert watch.found()["total"] == 11
    assert watch.kind.response_bytes.sum == 100


def test_histograms_are_of_the_same_requests() -> None:
    watch = Watch()
    watch.times.replied()
    watch.times.sent()
    kind = watch.kind
    assert bool(kind.total)
    assert sum(kind.throttle.counts) == sum(kind.total.counts) == sum(kind.response_bytes.counts) == 1
