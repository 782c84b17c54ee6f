"""A fault is said once, with its traceback, and then counted."""

import logging

import pytest

from headrace.telemetry.fault_log import INTERVAL_SECONDS, KINDS_MAX, FaultLog

log = logging.getLogger("headrace.tests.faults")


class Clock:
    now_s = 5.0


def fail(kind: type[Exception] = ValueError, text: str = "") -> Exception:
    try:
        raise kind(text)
    except kind as error:
        return error


def test_a_thousand_faults_of_a_kind_are_one_line_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    faults = FaultLog(lambda: Clock.now_s, log)
    for number in range(1_000):
        faults.note("Heartbeat failed", fail(text=str(number)), "client 7")
    assert len(caplog.records) == 1
    assert "Heartbeat failed: ValueError('0') client 7" in caplog.text
    assert caplog.records[0].exc_info
    Clock.now_s += INTERVAL_SECONDS
    faults.note("Heartbeat failed", fail())
    assert "as 1000 times since this was last said" in caplog.text
    assert faults.count == 1_001


def test_other_faults_are_said_too_and_the_kinds_have_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    faults = FaultLog(lambda: Clock.now_s, log)
    faults.note("Fetch failed", fail())
    faults.note("Fetch failed", fail(KeyError))
    faults.note("Produce failed", fail())
    assert len(caplog.records) == 3
    for number in range(3 * KINDS_MAX):
        faults.note(f"{number} failed", fail())
    assert len(faults._said) <= KINDS_MAX


def test_without_memory_there_is_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    FaultLog(lambda: Clock.now_s, log).note("Fetch failed", fail(MemoryError))
    assert "Fetch failed: MemoryError" in caplog.text
    assert not caplog.records[0].exc_info
