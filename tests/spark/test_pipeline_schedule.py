"""When scheduled runs begin."""

from datetime import UTC, datetime

import pytest

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.rounds import Rounds
from headrace.spark.pipeline.schedule import read_schedule
from headrace.spark.pipeline.spec import PipelineSpec
from headrace.spark.pipeline.spec_reader import read_spec


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("schedule", "now", "then"),
    [
        ("every 15 minutes", "2026-01-31T12:07:30", "2026-01-31T12:15"),
        ("every 15 minutes", "2026-01-31T12:15", "2026-01-31T12:30"),
        ("every 1 day", "2026-01-31T12:00", "2026-02-01T00:00"),
        ("30 3 * * *", "2026-01-31T03:29:59", "2026-01-31T03:30"),
        ("30 3 * * *", "2026-01-31T03:30", "2026-02-01T03:30"),
        ("*/20 8-9 * * *", "2026-01-31T08:41", "2026-01-31T09:00"),
        ("5/20 * * * *", "2026-01-31T08:26", "2026-01-31T08:45"),
        ("0 0 * * 1-5", "2026-01-30T12:00", "2026-02-02T00:00"),
        ("0 0 * * 7", "2026-01-30T12:00", "2026-02-01T00:00"),
        ("0 0 29 2 *", "2026-01-30T12:00", "2028-02-29T00:00"),
        ("0 0 13 * 5", "2026-01-31T12:00", "2026-02-06T00:00"),
        ("0,30 12 1,15 3,6 *", "2026-03-15T12:30", "2026-06-01T12:00"),
    ],
)
def test_the_next_run(schedule: str, now: str, then: str) -> None:
    assert read_schedule(schedule).next_ms(ms(now)) == ms(then)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("hourly", "every 15 minutes"),
        ("every 0 minutes", "1 second or more"),
        ("60 * * * *", "minute of a schedule: there are 0 to 59"),
        ("* * 5-1 * *", "day of a schedule"),
        ("* * * * mon", "weekday of a schedule: write"),
        ("*/0 * * * *", "minute"),
        ("0 0 30 2 *", "no day at all"),
    ],
)
def test_what_is_no_schedule(schedule: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_schedule(schedule)


def spec(name: str, *more: str) -> PipelineSpec:
    lines = ["in a: feed t", "out: console", *more]
    return read_spec(f"{name}.sql", "\n".join([*(f"-- {line}" for line in lines), "SELECT 1"]), {})


def test_rounds() -> None:
    now = [ms("2026-01-31T12:07")]
    once, often, seldom = (
        spec("once", "trigger: available now"),
        spec("often", "schedule: every 10 minutes"),
        spec("seldom", "schedule: every 1 hour"),
    )
    rounds = Rounds([once, often, seldom], lambda: now[0])
    assert not rounds.is_over
    assert rounds.is_due
    assert rounds.due() == [once, often, seldom]
    now[0] = ms("2026-01-31T12:31")  # it took its time: what would have begun meanwhile is left out
    rounds.done([once, often, seldom])
    assert not rounds.is_due
    assert rounds.next_text() == "2026-01-31 12:40:00 UTC"
    now[0] = ms("2026-01-31T12:40")
    assert rounds.is_due
    assert rounds.due() == [often]
    rounds.done([often])
    now[0] = ms("2026-01-31T13:00")
    assert rounds.due() == [often, seldom]
    assert Rounds([once], lambda: now[0]).is_over


def test_what_runs_for_ever_is_no_round() -> None:
    with pytest.raises(PipelineError, match="runs for ever"):
        Rounds([spec("a"), spec("b", "schedule: every 1 hour")], lambda: 0)
