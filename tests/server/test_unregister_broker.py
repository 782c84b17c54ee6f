"""UnregisterBroker through its handler."""

from pathlib import Path

from headrace.wire.schemas.unregister_broker import UnregisterBrokerRequest
from tests.server.desk import Desk, at_desk


def test_a_broker_that_nobody_knows_cannot_be_forgotten(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        response = await desk.ask(UnregisterBrokerRequest(77))
        assert (response.error_code, response.error_message) == (
            102,
            "Broker ID 77 is not currently registered",
        )

    at_desk(tmp_path, script)
