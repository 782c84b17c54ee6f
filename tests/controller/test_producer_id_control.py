"""Producer ids come in blocks that no two brokers share, and a broker takes them one by one."""

import asyncio
from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.drivers.producer_id_manager import ProducerIdManager
from headrace.controller.producer_id_control import BLOCK_SIZE, LAST_ID, allocate_producer_ids
from headrace.log.system_disk import SystemDisk
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.allocate_producer_ids import AllocateProducerIdsRequest
from tests.controller.building import apply, format_node, new_core, open_node


def test_blocks_follow_each_other() -> None:
    core = new_core(1, 2)
    blocks = [
        apply(core, allocate_producer_ids(core.cluster, AllocateProducerIdsRequest(broker, 100 + broker)))
        for broker in (1, 2, 1)
    ]
    assert [(b.producer_id_start, b.producer_id_len) for b in blocks] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]
    assert core.image.next_producer_id == 3000


def test_a_stale_broker_and_the_end_of_all_ids_are_refused() -> None:
    core = new_core(1)
    with pytest.raises(ApiError) as refused:
        allocate_producer_ids(core.cluster, AllocateProducerIdsRequest(1, 5))
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH
    core.replay([wire.ProducerIdsRecord(broker_id=1, next_producer_id=LAST_ID - BLOCK_SIZE + 1)])
    reply = allocate_producer_ids(core.cluster, AllocateProducerIdsRequest(1, 101)).reply
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_broker_takes_ids_at_once_and_asks_ahead(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = open_node(SystemDisk(), str(tmp_path))
        blocks = ProducerIdManager(node.controller, node.image, node_id=1, loop=asyncio.get_running_loop())
        unknown = blocks.take()
        assert not isinstance(unknown, int)
        with pytest.raises(ApiError):
            await unknown
        await node.start()
        first = [blocks.take() for _ in range(3)]
        assert [await taken for taken in first if not isinstance(taken, int)] == [0, 1, 2]
        rest = [blocks.take() for _ in range(BLOCK_SIZE - 3)]
        assert rest == list(range(3, BLOCK_SIZE))
        await node.controller.settle()
        assert blocks.take() == BLOCK_SIZE, "the next block was asked for in time"
        node.controller.stop()
        for _ in range(BLOCK_SIZE - 1):
            assert isinstance(blocks.take(), int)
        late = blocks.take()
        assert not isinstance(late, int)
        with pytest.raises(ApiError):
            await late
        await node.raft.stop()

    format_node(SystemDisk(), str(tmp_path))
    asyncio.run(scenario())


def test_ids_are_never_given_twice_though_more_wait_than_a_block_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = open_node(SystemDisk(), str(tmp_path))
        await node.start()
        blocks = ProducerIdManager(node.controller, node.image, node_id=1, loop=asyncio.get_running_loop())
        taken = [blocks.take() for _ in range(2 * BLOCK_SIZE + 5)]
        ids = [each if isinstance(each, int) else await each for each in taken]
        assert sorted(ids) == list(range(2 * BLOCK_SIZE + 5))
        await node.stop()

    format_node(SystemDisk(), str(tmp_path))
    asyncio.run(scenario())
