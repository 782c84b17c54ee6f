"""Log lines that strangers can cause are few."""

import asyncio
import logging

from headrace.telemetry.limited_log import INTERVAL_SECONDS, LINES_PER_INTERVAL, LimitedLog
from headrace.testing.loop import SimulatedLoop


def test_a_flood_of_faults_is_a_few_lines_and_a_count(caplog):
    loop = SimulatedLoop()
    limited_log = LimitedLog(loop.time, logging.getLogger("tested"), logging.INFO)

    async def main():
        for number in range(1_000):
            limited_log.write("fault %d", number)
        await asyncio.sleep(INTERVAL_SECONDS)
        limited_log.write("fault %d", 1_000)

    with caplog.at_level(logging.INFO, "tested"):
        loop.run_until_complete(main())
    lines = caplog.text.splitlines()
    assert len(lines) == LINES_PER_INTERVAL + 2
    assert f"{1_000 - LINES_PER_INTERVAL} more" in lines[-2]
    assert "fault 1000" in lines[-1]
    loop.close()


def test_a_fault_of_ours_comes_with_its_traceback(caplog):
    loop = SimulatedLoop()
    limited_log = LimitedLog(loop.time, logging.getLogger("tested"), logging.ERROR)
    try:
        raise ValueError("why")
    except ValueError as error:
        limited_log.write("failed", error=error)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)
    loop.close()
