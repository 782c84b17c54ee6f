"""A replica that lost records in the middle of its log fetches them again, found at a start or by reading."""

import asyncio
import logging

import pytest

from headrace.base.chunks import FileSlice
from headrace.records.batch import read_records
from headrace.records.header import batches
from headrace.testing.disk import Crash
from tests.simulation.test_replicated_nodes import Script, T, play

SEGMENTS = 6


def all_values(script: Script, node_id: int) -> list[bytes]:
    log = script.replicas()[node_id].local_log()
    offset, found = log.log_start_offset, []
    while offset < log.log_end_offset:
        chunk = log.read(offset, max_bytes=1 << 20).chunk
        data = chunk.read() if isinstance(chunk, FileSlice) else chunk
        if not data:
            break
        for at, header in batches(data):
            found += [bytes(record.value or b"") for record in read_records(data, at)]
            offset = header.next_offset
    return list(dict.fromkeys(found))


def closed_segments(script: Script, node_id: int) -> list[str]:
    disk = script.cluster.machine(node_id).disk
    logs = sorted(p for p in disk.files() if p.startswith(f"/data/{T}/") and p.endswith(".log"))
    return [path for path in logs if disk.size(path)][:-1]


async def write_segments(script: Script) -> None:
    for _ in range(SEGMENTS):
        await script.write(1)
        await asyncio.sleep(0.1)
    await script.cluster.until(
        lambda: all(all_values(script, n) == script.acknowledged for n in (1, 2, 3)), "all have all"
    )


@pytest.mark.parametrize("crash", [None, Crash.KILL], ids=["clean", "killed"])
@pytest.mark.parametrize("damage", ["cut", "gone", "first gone"])
@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_found_at_a_start(
    leads: bool, damage: str, crash: Crash | None, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(7, log_roll_ms="50", replica_lag_time_max_ms="30000")
    caplog.set_level(logging.WARNING, "headrace")

    async def work() -> None:
        await script.create()
        await write_segments(script)
        leader = script.leader()
        assert leader is not None
        node_id = leader if leads else min({1, 2, 3} - {leader})
        if crash is None:
            await script.cluster.stop(node_id)
        else:
            script.cluster.kill(node_id, crash)
        disk, closed = script.cluster.machine(node_id).disk, closed_segments(script, node_id)
        path = closed[0 if damage == "first gone" else 2]
        if damage == "cut":
            disk.tree.file(path).truncate(30)
        else:
            disk.lose(path)
        caplog.clear()
        await script.cluster.start(node_id)
        await script.write(1)
        await script.cluster.until(
            lambda: all_values(script, node_id) == script.acknowledged, "what was missing is there again"
        )
        await script.cluster.until(lambda: len(script.in_sync()) == 3, "all are in sync again")
        assert path.rpartition("/")[2] in caplog.text

    play(script, work)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_found_by_a_reader(leads: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The file is cut while the node runs. Where others are in sync, one of them leads from then on."""
    script = Script(8, log_roll_ms="50", replica_lag_time_max_ms="30000")
    caplog.set_level(logging.WARNING, "headrace")

    async def work() -> None:
        await script.create()
        await write_segments(script)
        leader = script.leader()
        assert leader is not None
        node_id = leader if leads else min({1, 2, 3} - {leader})
        disk = script.cluster.machine(node_id).disk
        disk.tree.file(closed_segments(script, node_id)[2]).truncate(30)
        log = script.replicas()[node_id].local_log()
        assert len(log.read(2, max_bytes=1 << 20).chunk), "goes on with the next segment"
        await script.cluster.until(
            lambda: all_values(script, node_id) == script.acknowledged, "what was missing is there again"
        )
        await script.cluster.until(lambda: len(script.in_sync()) == 3, "all are in sync again")
        await script.write(1)
        assert f"{T}: records are missing from offset 2 to 2" in caplog.text
        assert f"{T}: it has lost records" in caplog.text

    play(script, work)
