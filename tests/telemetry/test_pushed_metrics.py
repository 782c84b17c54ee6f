"""What is kept of clients' pushes: deltas add up, and everything has a bound."""

import logging

import pytest

from headrace.telemetry.client_metrics import pushed_metrics
from headrace.telemetry.client_metrics.otlp import DataPoint
from headrace.telemetry.client_metrics.pushed_metrics import PushedMetrics
from headrace.telemetry.limited_log import LimitedLog


def shown(pushed: PushedMetrics) -> dict[tuple[str, str], float]:
    return {(each.instance_id, each.metric + each.attributes): each.value for each in pushed.values()}


def take(pushed: PushedMetrics, instance: str, *points: DataPoint, now_s: float = 0.0) -> None:
    pushed.take("c", instance, points, now_s=now_s, shown_s=10.0)


def test_deltas_add_up_and_others_replace() -> None:
    pushed = PushedMetrics()
    for _ in range(3):
        take(
            pushed,
            "i",
            DataPoint("delta", (), 2.0, is_total=True, is_delta=True),
            DataPoint("total", (), 2.0, is_total=True),
            DataPoint("gauge", (("a", "b"),), 2.0),
        )
    assert shown(pushed) == {("i", "delta"): 6.0, ("i", "total"): 2.0, ("i", "gaugea=b"): 2.0}
    assert {each.metric for each in pushed.values() if each.is_total} == {"delta", "total"}


def test_who_is_silent_or_ends_is_shown_no_more() -> None:
    pushed = PushedMetrics()
    take(pushed, "old", DataPoint("m", (), 1.0))
    take(pushed, "new", DataPoint("m", (), 1.0), now_s=5.0)
    pushed.expire(11.0)
    assert shown(pushed) == {("new", "m"): 1.0}
    pushed.drop("new")
    assert len(pushed) == 0


def test_what_is_too_much_is_counted_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pushed_metrics, "CLIENTS_MAX", 1)
    monkeypatch.setattr(pushed_metrics, "SERIES_MAX", 2)
    pushed = PushedMetrics(LimitedLog(lambda: 0.0, logging.getLogger("t"), logging.WARNING))
    take(pushed, "a", *(DataPoint(f"m{number}", (), 1.0) for number in range(5)))
    take(pushed, "b", DataPoint("m", (), 1.0))
    assert len(shown(pushed)) == 2
    assert pushed.left_out == 4
    assert "3 values that client 'c' has pushed are not in /metrics: 2 values" in caplog.text
    assert "1 clients are shown" in caplog.text
    take(pushed, "b", DataPoint("m", (), 1.0), now_s=11.0)  # the other is silent by now
    assert shown(pushed) == {("b", "m"): 1.0}
