"""Figures out of brokers' /metrics, and what is said where there are none."""

import asyncio

import pytest

from headrace.console import metrics_reader
from headrace.console.metrics_reader import MetricsReader

SCRAPE = """# HELP kafka_broker_info 1
# TYPE kafka_broker_info gauge
kafka_broker_info{{id="7",address="h:1"}} 1.0
# TYPE kafka_server_brokertopicmetrics_bytesin_total counter
kafka_server_brokertopicmetrics_bytesin_total {sent}
kafka_server_brokertopicmetrics_bytesin_total{{topic="a"}} 999999
process_resident_memory_bytes 5e+07
process_start_time_seconds 1.7e+09
"""


def test_counters_become_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0])
    monkeypatch.setattr(metrics_reader.time, "monotonic", lambda: next(clock))
    source = metrics_reader._Source("url")
    for sent in (1000, 6000):
        source.take(metrics_reader._figures(SCRAPE.format(sent=sent))[0])
    assert source.node == "7"
    assert source.figures == {"memory": 5e7, "started": 1.7e9, "bytes_in": 500.0}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n" + SCRAPE.format(sent=1).encode(), ""),
        (b"HTTP/1.0 401 Unauthorized\r\n\r\n", "it answered HTTP/1.0 401 Unauthorized"),
        (b"", "it answered nothing"),
    ],
)
def test_what_is_answered_is_told(answer: bytes, error: str) -> None:
    async def play() -> dict[str, object]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader = MetricsReader([f"http://127.0.0.1:{port}/metrics"])
        task = asyncio.create_task(reader.run())
        while not (reader.figures()[0]["node"] or reader.figures()[0]["error"]):
            await asyncio.sleep(0)
        task.cancel()
        server.close()
        return reader.figures()[0]

    found = asyncio.run(play())
    assert found["error"] == error
    assert ("memory" in found) is (not error)


def test_nobody_there() -> None:
    async def play() -> str:
        reader = MetricsReader(["http://127.0.0.1:1/metrics"])
        task = asyncio.create_task(reader.run())
        while not reader.figures()[0]["error"]:
            await asyncio.sleep(0)
        task.cancel()
        return str(reader.figures()[0]["error"])

    assert "127.0.0.1" in asyncio.run(play())
