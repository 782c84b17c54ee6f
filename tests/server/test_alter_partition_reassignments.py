"""AlterPartitionReassignments through its handler."""

from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.server.desk import Desk, at_desk


@pytest.mark.parametrize("version", range(2))
def test_with_one_broker_there_is_nowhere_to_go(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        partitions = [ReassignablePartition(0, wish) for wish in ([1], None, [9])]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("a", partitions)])
        response = await desk.ask(request, version)
        assert response.error_code == 0
        assert [p.error_code for p in response.responses[0].partitions] == [
            0,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ]

    at_desk(tmp_path, script)
