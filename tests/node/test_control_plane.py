"""A node's part in the quorum, from its start on."""

from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.drivers.active_controller import ActiveController
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import World
from headrace.wire.schemas.controller_registration import ControllerRegistrationRequest


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT])
def test_a_node_starts_although_the_active_controller_cannot_write_yet(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """Another node's full disk is no reason to end."""
    ask, refused = ActiveController.ask, []

    def refuse_first(self: ActiveController, request: object, **how: Any) -> object:
        if isinstance(request, ControllerRegistrationRequest) and len(refused) < 9:
            refused.append(request)
            raise ApiError(code, "the disk of another node is full")
        return ask(self, request, **how)

    monkeypatch.setattr(ActiveController, "ask", refuse_first)
    cluster = NodeCluster(World(1))
    try:
        cluster.world.run(cluster.start())
        assert len(refused) == 9
    finally:
        cluster.world.close()
