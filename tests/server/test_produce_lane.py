"""The short way of Produce requests gives the same answers and the same log as the handler."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.records.batch import Record, build_batch
from headrace.records.kernels.choice import kernels
from headrace.server.produce_lane import ProduceLane
from headrace.wire.schemas.produce import ProduceRequest
from tests.records.kernel_forms import FORMS
from tests.server.beside_kafka.produce import produce
from tests.server.node_world import Client, NodeWorld, simulated

SEEDS = 12
REQUESTS = 60
NOW_MS = 1_700_000_000_000


class Producers:
    """Requests by chance: mostly plain ones in order, with everything else in between."""

    def __init__(self, seed: int, topic_ids: dict[str, bytes]) -> None:
        self._rng = random.Random(seed)
        self._topic_ids = topic_ids
        self._sequences = {(pid, place): 0 for pid in (1, 2) for place in range(6)}

    def request(self) -> tuple[ProduceRequest, int]:
        rng = self._rng
        topic = rng.choice(["plain", "plain", "plain", "plain", "small", "stamped", "keyed", "none"])
        partition = rng.choice([0, 0, 0, 1, 7])
        version = rng.choice([3, 7, 9, 12, 13])
        acks = rng.choice([1, 1, -1, 2])
        topic_id = self._topic_ids.get(topic, b"\7" * 16)
        batch = self._batch(
            ("plain", "small").index(topic) * 2 + partition % 2 if topic in ("plain", "small") else 5
        )
        request = produce(topic, batch, topic_id=topic_id, acks=acks, partitions=[partition])
        return request, version

    def _batch(self, place: int) -> bytearray:
        rng = self._rng
        count = rng.choice([1, 1, 2, 30])
        key = rng.choice([None, b"k"])
        timestamp = rng.choice([NOW_MS, NOW_MS, NOW_MS, -1, 0])
        rows = [Record(0, timestamp, key, bytes(rng.randrange(150)), ()) for _ in range(count)]
        options: dict[str, Any] = {}
        if rng.random() < 0.6:
            options = self._numbered(rng.choice([1, 2]), place, count)
        if rng.random() < 0.1:
            options["codec"] = rng.choice([1, 4])
        batch = build_batch(rows, **options)
        if rng.random() < 0.05:
            batch[rng.randrange(len(batch))] ^= 1 << rng.randrange(8)
        return batch

    def _numbered(self, producer_id: int, place: int, count: int) -> dict[str, int]:
        """The next batch of an idempotent producer; sometimes an earlier or a later one."""
        sequence = self._sequences[producer_id, place]
        chance = self._rng.random()
        if chance < 0.1:
            sequence = max(0, sequence - count)
        elif chance < 0.15:
            sequence += 3
        else:
            self._sequences[producer_id, place] += count
        return {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}


async def conversation(world: NodeWorld, seed: int) -> tuple[list[Any], list[bytes]]:
    """What came back, and what is in the logs."""
    settings: dict[str, dict[str, str]] = {
        "plain": {},
        "small": {"max.message.bytes": "1000", "index.interval.bytes": "100"},
        "stamped": {"message.timestamp.type": "LogAppendTime"},
        "keyed": {"cleanup.policy": "compact"},
    }
    ids = {name: await world.create_topic(name, 2, each) for name, each in settings.items()}
    for partition in (0, 1):
        log = world.log("small", partition)
        log.update_config(dataclasses.replace(log.config, segment_bytes=5000))
    producers = Producers(seed, ids)
    client = await world.connect()
    replies = []
    for _ in range(REQUESTS // 6):
        asked = [client.ask(*producers.request()) for _ in range(6)]  # they arrive in one read, mostly
        for each in asked:
            try:
                replies.append(await each)
            except ConnectionError as error:
                replies.append(type(error))
        if not client.is_open:
            client = await world.connect()
    logs = [world.log(name, partition) for name in settings for partition in (0, 1)]
    return replies, [bytes(segment.file.read(0, segment.size)) for log in logs for segment in log.segments]


def outcome(seed: int) -> tuple[list[Any], list[bytes]]:
    found: list[tuple[list[Any], list[bytes]]] = []

    @simulated()
    async def talk(world: NodeWorld) -> None:
        found.append(await conversation(world, seed))

    talk()
    return found[0]


def without_ids(replies: list[Any]) -> list[str]:
    """Topic ids are drawn anew for each world only if it has another seed, and times are virtual."""
    return [repr(reply) for reply in replies]


@pytest.mark.parametrize("run", [form.produce_run for form in FORMS], ids=[form.name for form in FORMS])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_answers_and_logs_are_the_handlers(
    monkeypatch: pytest.MonkeyPatch, seed: int, run: Callable[..., Any]
) -> None:
    taken = 0

    def counted(data: bytes, at: int, end: int) -> Any:
        nonlocal taken
        found = run(data, at, end)
        taken += found[0].requests
        return found

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "produce_run", counted)
        by_lane = outcome(seed)
    assert taken > REQUESTS // 4
    with monkeypatch.context() as patch:
        patch.setattr(ProduceLane, "take", lambda self, connection, reader: 1)
        by_handler = outcome(seed)
    assert without_ids(by_lane[0]) == without_ids(by_handler[0])
    assert by_lane[1] == by_handler[1]


async def pipelined(client: Client, requests: list[ProduceRequest], version: int) -> list[int]:
    asked = [client.ask(request, version) for request in requests]
    return [(await each).responses[0].partition_responses[0].base_offset for each in asked]


@simulated()
async def test_a_run_is_written_with_one_call(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    batch = build_batch([Record(0, NOW_MS, None, b"v", ())])
    await pipelined(client, [produce("t", batch)], 12)
    segment = world.log("t").segments.active
    writes: list[int] = []
    write = type(segment.file).write

    def counted(self: Any, position: int, chunks: Any) -> int:
        if self.path == segment.path:
            writes.append(len(chunks))
        return write(self, position, chunks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(segment.file), "write", counted)
        assert await pipelined(client, [produce("t", batch)] * 10, 12) == list(range(1, 11))
    assert len(writes) < 10
    assert sum(writes) == 10


@simulated()
async def test_a_disk_that_is_full_refuses_each_request_of_a_run(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    batch = build_batch([Record(0, NOW_MS, None, b"v", ())])
    assert await pipelined(client, [produce("t", batch)], 12) == [0]
    world.machine.disk.faults.is_full = True
    assert await pipelined(client, [produce("t", batch)] * 3, 12) == [-1, -1, -1]
    world.machine.disk.faults.is_full = False
    assert await pipelined(client, [produce("t", batch)] * 2, 12) == [1, 2]
