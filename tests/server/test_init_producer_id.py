"""InitProducerId: ids for idempotent producers, and no transactions."""

from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest
from tests.server.desk import Desk, at_desk


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        replies = [await desk.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(3)]
        assert [(r.error_code, r.producer_id, r.producer_epoch) for r in replies] == [
            (0, 0, 0),
            (0, 1, 0),
            (0, 2, 0),
        ]

    at_desk(tmp_path, script)


def test_a_producer_that_lost_its_way_gets_another(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        lost = InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=1)
        assert (await desk.ask(lost)).producer_id == 0
        half = InitProducerIdRequest(transactional_id=None, producer_id=5)
        assert (await desk.ask(half)).error_code == ErrorCode.INVALID_REQUEST

    at_desk(tmp_path, script)


def test_transactions_are_refused_for_good(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        reply = await desk.ask(InitProducerIdRequest(transactional_id="tx"))
        assert (reply.error_code, reply.producer_id) == (ErrorCode.UNSUPPORTED_VERSION, -1)
        empty = await desk.ask(InitProducerIdRequest(transactional_id=""))
        assert empty.error_code == ErrorCode.INVALID_REQUEST

    at_desk(tmp_path, script)


def test_without_a_controller_the_producer_is_to_ask_again(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.node.controller.stop()
        reply = await desk.ask(InitProducerIdRequest(transactional_id=None))
        assert (reply.error_code, reply.producer_epoch) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)

    at_desk(tmp_path, script)
