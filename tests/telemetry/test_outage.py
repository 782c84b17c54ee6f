"""Who does not answer is told of once, counted, and told of when he is back."""

import logging

from headrace.telemetry.outage import AGAIN_S, Outage


def test_an_outage_is_three_lines_however_often_it_is_tried(caplog):
    now = [0.0]
    outage = Outage(lambda: now[0], logging.getLogger("tested"), "broker 1 at there:9092")
    with caplog.at_level(logging.WARNING, "tested"):
        outage.over()
        for _ in range(100):
            outage.failed("Connection refused")
            now[0] += 0.5
        outage.over()
        outage.over()
    assert [record.getMessage() for record in caplog.records] == [
        "broker 1 at there:9092 does not answer, and is tried again: Connection refused",
        "broker 1 at there:9092 answers again, after 50.0 s and 100 failed attempts",
    ]


def test_one_that_lasts_is_told_again(caplog):
    now = [0.0]
    outage = Outage(lambda: now[0], logging.getLogger("tested"), "broker 1")
    with caplog.at_level(logging.WARNING, "tested"):
        outage.failed("first")
        now[0] = AGAIN_S
        outage.failed("second")
        outage.failed("third")
    assert [record.getMessage() for record in caplog.records][1:] == [
        f"broker 1 has not answered for {AGAIN_S:.0f} s, in 2 attempts: second"
    ]
