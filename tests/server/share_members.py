"""Members of share groups on a simulated node: each with a connection of its own, as share consumers have."""

from typing import Any, Self

from headrace.records.batch import Record, batches, build_batch, read_records
from headrace.wire.schemas import share_acknowledge, share_fetch
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.schemas.share_acknowledge import ShareAcknowledgeRequest
from headrace.wire.schemas.share_fetch import ShareFetchRequest
from headrace.wire.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.server.node_world import Client, NodeWorld

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


async def produce(world: NodeWorld, topic: str, *values: bytes, together: bool = True) -> None:
    """Write records, in one batch or in one each."""
    client = await world.connect()
    records = [Record(number, 1, None, value) for number, value in enumerate(values)]
    for each in [records] if together else [[record] for record in records]:
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, build_batch(each))])
        reply = await client.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 9)
        assert reply.responses[0].partition_responses[0].error_code == 0
    client.close()


class ShareMember:
    """A share consumer that does what it is told, and remembers what it was told."""

    def __init__(self, client: Client, group: str, member_id: str) -> None:
        self.client = client
        self.group = group
        self.id = member_id
        self.epoch = 0
        self.session_epoch = 0
        self.assigned: list[tuple[bytes, int]] = []

    @classmethod
    async def connect(cls, world: NodeWorld, group: str = "g", member_id: str = "m1") -> Self:
        client = await world.connect()
        await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 6)
        return cls(client, group, member_id)

    async def join(self, *topics: str) -> Any:
        return await self.heartbeat(0, list(topics))

    async def heartbeat(self, epoch: int | None = None, topics: list[str] | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            self.group, self.id, self.epoch if epoch is None else epoch, subscribed_topic_names=topics
        )
        reply = await self.client.ask(request, 1)
        if reply.error_code == 0:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.assigned = [
                    (each.topic_id, index)
                    for each in reply.assignment.topic_partitions
                    for index in each.partitions
                ]
        return reply

    async def fetch(
        self,
        answers: dict[tuple[bytes, int], list[tuple[int, int, list[int]]]] | None = None,
        **options: Any,
    ) -> Any:
        """Fetch from what is assigned, acknowledging on the way."""
        options = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500} | options
        version = options.pop("version", 2)
        wanted = dict.fromkeys(self.assigned if self.session_epoch == 0 else [])
        topics = [
            share_fetch.FetchTopic(
                topic_id,
                [
                    share_fetch.FetchPartition(
                        index,
                        [
                            share_fetch.AcknowledgementBatch(*each)
                            for each in (answers or {}).get((topic_id, index), [])
                        ],
                    )
                ],
            )
            for topic_id, index in wanted | dict.fromkeys(answers or {})
        ]
        request = ShareFetchRequest(
            self.group, self.id, options.pop("epoch", self.session_epoch), topics=topics, **options
        )
        reply = await self.client.ask(request, version)
        if reply.error_code == 0:
            self.session_epoch += 1
        return reply

    async def acknowledge(
        self, answers: dict[tuple[bytes, int], list[tuple[int, int, list[int]]]], **options: Any
    ) -> Any:
        topics = [
            share_acknowledge.AcknowledgeTopic(
                topic_id,
                [
                    share_acknowledge.AcknowledgePartition(
                        index, [share_acknowledge.AcknowledgementBatch(*each) for each in batches]
                    )
                ],
            )
            for (topic_id, index), batches in answers.items()
        ]
        request = ShareAcknowledgeRequest(
            self.group, self.id, options.pop("epoch", self.session_epoch), topics=topics, **options
        )
        reply = await self.client.ask(request, 2)
        if reply.error_code == 0:
            self.session_epoch += 1
        return reply


def acquired(reply: Any) -> list[tuple[int, int, int]]:
    """What a ShareFetch handed out: first offset, last offset and delivery count."""
    assert reply.error_code == 0, reply
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in reply.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def values(reply: Any) -> list[bytes | None]:
    """All records that came with a ShareFetch, acquired or not."""
    found: list[bytes | None] = []
    for topic in reply.responses:
        for partition in topic.partitions:
            data = b"".join(bytes(each) for each in _chunks(partition.records))
            for position, header in batches(data):
                found += [each.value for each in read_records(data[position : position + header.size])]
    return found


def _chunks(records: Any) -> list[Any]:
    return records if isinstance(records, list) else [records]
