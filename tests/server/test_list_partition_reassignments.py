"""ListPartitionReassignments through its handler."""

from pathlib import Path

from headrace.wire.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.server.desk import Desk, at_desk


def test_nothing_is_on_the_move(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        for topics in (None, [ListPartitionReassignmentsTopics("a", [0])]):
            response = await desk.ask(ListPartitionReassignmentsRequest(topics=topics))
            assert (response.error_code, response.topics) == (0, [])

    at_desk(tmp_path, script)
