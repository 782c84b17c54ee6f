"""What a share consumer makes of a reply in which not all is well."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import AcknowledgeType, AsyncShareConsumer, ClientError, RefusedError, ShareRecord
from headrace.clients.internals.share.leader_session import LeaderSession
from headrace.server.share.delayed_share_fetch import DelayedShareFetch
from headrace.server.share.share_sessions import PartitionId
from headrace.wire.schemas.share_fetch import PartitionData
from tests.clients.test_consumer import fill
from tests.clients.test_producer import play
from tests.clients.worlds import ClientWorld
from tests.server.node_world import PORT
from tests.server.test_share_fetch import set_group

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def share_consumer(world: ClientWorld) -> AsyncShareConsumer:
    settings = {
        "bootstrap.servers": f"node:{PORT}",
        "group.id": "g",
        "share.acknowledgement.mode": "explicit",
    }
    consumer = AsyncShareConsumer(settings, environment=world.surroundings())
    consumer.subscribe("t")
    return consumer


async def take(consumer: AsyncShareConsumer, count: int) -> list[ShareRecord]:
    """Poll until so many came, and accept them."""
    taken: list[ShareRecord] = []
    for _ in range(200):
        for row in await consumer.poll(0.1):
            consumer.acknowledge(row, AcknowledgeType.ACCEPT)
            taken.append(row)
        if len(taken) >= count:
            return taken
    raise AssertionError(f"{len(taken)} of {count}")


def test_one_partitions_error_takes_nothing_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What became of the answers was not told, and records behind it were held and never handed out (seed 78
    of the simulator's `share`)."""

    def read_one(fetch: DelayedShareFetch, partition_id: PartitionId) -> PartitionData | None:
        if partition_id[1] == 0:
            return PartitionData(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return rightly(fetch, partition_id)

    rightly = DelayedShareFetch._read_one

    async def script(world: ClientWorld) -> None:
        told: list[dict[TopicPartition, ClientError | None]] = []
        await fill(world, 2, partitions=2)
        await set_group(world, "share.auto.offset.reset", "earliest")
        consumer = share_consumer(world)
        consumer.on_commit(lambda outcome: told.append(dict(outcome)))
        await take(consumer, 2)
        async with world.producer() as producer:
            await producer.send("t", b"more", partition=1)
        told.clear()
        monkeypatch.setattr(DelayedShareFetch, "_read_one", read_one)
        with pytest.raises(RefusedError):
            await consumer.poll(1.0)
        assert told == [{T0: None, T1: None}]
        assert [row.value for row in await consumer.poll(0.0)] == [b"more"]

    play(script)


def test_the_leader_that_gave_a_record_hears_of_it_and_not_the_one_before() -> None:
    """Whose session still knows the partition. It refused every answer, and the records came back when their
    locks ended (seed 9 of the simulator's `share`)."""

    async def script(world: ClientWorld) -> None:
        core = share_consumer(world).core
        before, now = core._sessions[1], core._sessions[2] = LeaderSession(1), LeaderSession(2)
        before.known, now.known = {T0, T1}, {T0}
        core._given_by = {T0: 2, T1: 1}
        for partition in (T0, T1):
            core.delivered.give(partition, [5])
            core.delivered.answer({partition: [5]}, AcknowledgeType.ACCEPT)
        assert [*core._answers_for(before, before.known)] == [T1]
        assert [*core._answers_for(now, now.known)] == [T0]

    play(script)
