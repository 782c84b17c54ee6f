"""Logs that are recovered at a start: what takes a moment is not worth a word, and damage always is."""

import asyncio

import pytest

from headrace.node import startup
from headrace.node.startup import check_tiering, open_logs
from headrace.settings.definition import SettingError
from headrace.testing.disk import Crash, VirtualDisk
from tests.replication.building import NODE, Bench, append


def left_behind() -> VirtualDisk:
    """The disk of a node that was killed when it had three logs."""
    bench = Bench("/a")
    bench.open()
    bench.create("t", 1, count=3)
    for partition in bench.replicas:
        append(partition)
    return bench.disk.crash(Crash.KILL)


def opened(disk: VirtualDisk) -> list[str]:
    bench = Bench("/a", disk=disk)
    said: list[str] = []
    loop = asyncio.new_event_loop()

    async def scenario() -> None:
        await open_logs(bench.store, bench.image, bench.config_of, node_id=NODE, loop=loop, say=said.append)
        await asyncio.sleep(0)  # what the thread told last

    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
    return said


def test_a_moment_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "TELL_EVERY_S", 3600.0)  # a busy machine's moments are long
    assert opened(left_behind()) == []


def test_what_takes_longer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "TELL_EVERY_S", 0.0)
    assert opened(left_behind())[:1] == ["recovering /a/t-0: segment 1 of 1"]


def test_damage_is_told_however_short() -> None:
    disk = left_behind()
    path = f"/a/t-1/{0:020}.log"
    disk.replace_file(path, disk.read_file(path) + b"x" * 9)
    assert [each for each in opened(disk) if "/a/t-1" in each and "9 damaged bytes cut off" in each]


def test_tiering_is_not_switched_off_while_topics_have_it() -> None:
    bench = Bench("/a")
    bench.open()
    bench.create("t", 1)
    bench.create("__consumer_offsets", 2)
    check_tiering(bench.config, bench.image)
    bench.configure("__consumer_offsets", "remote.storage.enable", "true")
    check_tiering(bench.config, bench.image)  # the system's own are never tiered, whatever was written down
    bench.configure("t", "remote.storage.enable", "true")
    with pytest.raises(SettingError, match=r"remote\.log\.storage\.system\.enable: .*remote store \(t\)"):
        check_tiering(bench.config, bench.image)
    tiered = Bench("/a", remote_log_storage_system_enable="true")
    check_tiering(tiered.config, bench.image)
