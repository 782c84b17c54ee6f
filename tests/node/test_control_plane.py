"""A node's part in the quorum, from its start on."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.active import ActiveController
from headrace.testing.node_cluster import NodeCluster
from headrace.testing.world import World


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT])
def test_a_node_starts_although_the_active_controller_cannot_write_yet(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """Another node's full disk is no reason to end."""
    register, refused = ActiveController.register_controller, []

    def refuse_first(self: ActiveController, request: object) -> object:
        if len(refused) < 9:
            refused.append(request)
            raise ApiError(code, "the disk of another node is full")
        return register(self, request)

    monkeypatch.setattr(ActiveController, "register_controller", refuse_first)
    cluster = NodeCluster(World(1))
    try:
        cluster.world.run(cluster.start())
        assert len(refused) == 9
    finally:
        cluster.world.close()
