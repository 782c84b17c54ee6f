"""What the share coordinator of a simulated node is asked by brokers, about one share partition."""

from typing import Any, Self

from headrace.wire.schemas import delete_share_group_state as delete
from headrace.wire.schemas import initialize_share_group_state as initialize
from headrace.wire.schemas import read_share_group_state as read
from headrace.wire.schemas import read_share_group_state_summary as summary
from headrace.wire.schemas import write_share_group_state as write
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from tests.server.node_world import Client, NodeWorld


class ShareState:
    """The state of partition 0 of topic t in group g."""

    def __init__(self, client: Client, topic_id: bytes) -> None:
        self.client = client
        self.topic_id = topic_id

    @classmethod
    async def connect(cls, world: NodeWorld) -> Self:
        known = world.node.parts.image.topics_by_name.get("t")
        topic_id = await world.create_topic("t") if known is None else known.id
        client = await world.connect()
        key = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
        reply = await client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
        assert reply.coordinators[0].node_id == 1
        return cls(client, topic_id)

    async def _ask(self, message: Any, version: int) -> Any:
        return (await self.client.ask(message, version)).results[0].partitions[0]

    async def initialize(self, state_epoch: int, start_offset: int) -> int:
        data = initialize.InitializeStateData(
            self.topic_id, [initialize.PartitionData(0, state_epoch, start_offset)]
        )
        code: int = (await self._ask(initialize.InitializeShareGroupStateRequest("g", [data]), 0)).error_code
        return code

    async def read(self, leader_epoch: int) -> Any:
        data = read.ReadStateData(self.topic_id, [read.PartitionData(0, leader_epoch)])
        return await self._ask(read.ReadShareGroupStateRequest("g", [data]), 0)

    async def summary(self, leader_epoch: int = -1) -> Any:
        data = summary.ReadStateSummaryData(self.topic_id, [summary.PartitionData(0, leader_epoch)])
        return await self._ask(summary.ReadShareGroupStateSummaryRequest("g", [data]), 1)

    async def write(
        self,
        leader_epoch: int,
        start_offset: int,
        *batches: tuple[int, int, int, int],
        state_epoch: int = 0,
        complete: int = 0,
    ) -> int:
        partition = write.PartitionData(
            0,
            state_epoch,
            leader_epoch,
            start_offset,
            complete,
            [write.StateBatch(*each) for each in batches],
        )
        data = write.WriteStateData(self.topic_id, [partition])
        code: int = (await self._ask(write.WriteShareGroupStateRequest("g", [data]), 1)).error_code
        return code

    async def delete(self) -> int:
        data = delete.DeleteStateData(self.topic_id, [delete.PartitionData(0)])
        code: int = (await self._ask(delete.DeleteShareGroupStateRequest("g", [data]), 0)).error_code
        return code

    @staticmethod
    def batches(reply: Any) -> list[tuple[int, int, int, int]]:
        return [
            (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in reply.state_batches
        ]
