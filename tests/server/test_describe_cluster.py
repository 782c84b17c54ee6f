"""DescribeCluster: the brokers, and only them."""

from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.server.authorizer import NOT_ASKED_FOR
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.describe_cluster import DescribeClusterRequest
from tests.controller.building import registration
from tests.server.desk import Desk, at_desk


@pytest.mark.parametrize("version", range(3))
def test_live_brokers_are_told(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        response = await desk.ask(DescribeClusterRequest(), version)
        assert (response.cluster_id, response.controller_id) == (desk.parts.cluster_id, 1)
        assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "localhost", 9092)]
        assert response.cluster_authorized_operations == NOT_ASKED_FOR
        asked = await desk.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
        assert asked.cluster_authorized_operations == 8096

    at_desk(tmp_path, script)


def test_fenced_brokers_are_told_to_those_who_ask(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.parts.image = desk.image.copy()
        desk.parts.image.replay_all([registration(2, fenced=True), wire.NoOpRecord()])
        assert len((await desk.ask(DescribeClusterRequest(), 2)).brokers) == 1
        response = await desk.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
        assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False), (2, True)]

    at_desk(tmp_path, script)


def test_controllers_are_told_on_their_own_listener_only(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        response = await desk.ask(DescribeClusterRequest(endpoint_type=2), 1)
        assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        response = await desk.ask(DescribeClusterRequest(endpoint_type=9), 1)
        assert response.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        desk.peer.listener = "CONTROLLER"
        desk.parts.image = desk.image.copy()
        endpoint = wire.ControllerEndpoint(name="CONTROLLER", host="here", port=9093)
        desk.parts.image.replay(wire.RegisterControllerRecord(controller_id=1, end_points=[endpoint]))
        response = await desk.ask(DescribeClusterRequest(endpoint_type=2), 1)
        assert (response.error_code, response.endpoint_type, response.controller_id) == (0, 2, 1)
        assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "here", 9093)]
        response = await desk.ask(DescribeClusterRequest(endpoint_type=1), 1)
        assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE

    at_desk(tmp_path, script)
