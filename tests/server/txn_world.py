"""What transactional clients do to a simulated node, in a few words."""

from headrace.records.batch import Record, batches, build_batch, read_records
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.beside_kafka.produce import produce as produce_request
from tests.server.beside_kafka.talk import RECORD_MS
from tests.server.node_world import Client, NodeWorld
from tests.server.txn_requests import Who, init

ADDING = 12
"""The version of Produce that adds partitions."""


async def begin(client: Client, name: str, **options: int) -> Who:
    """Find the coordinator, and become the user of an id."""
    await client.ask(ask_for(6, name, key_type=1), 6)
    reply = await client.ask(init(name, **options), 5)
    assert reply.error_code == 0, reply
    return name, reply.producer_id, reply.producer_epoch


async def produce(
    client: Client, who: Who, topic: str, partition: int, *payloads: bytes, sequence: int = 0
) -> None:
    """Write in a transaction, as a client of transaction.version 2."""
    error = await try_produce(client, who, topic, partition, *payloads, sequence=sequence)
    assert error == 0, error


async def try_produce(
    client: Client,
    who: Who,
    topic: str,
    partition: int,
    *payloads: bytes,
    sequence: int = 0,
    version: int = ADDING,
) -> int:
    records = build_batch(
        [Record(0, RECORD_MS, None, each) for each in payloads],
        producer_id=who[1],
        producer_epoch=who[2],
        base_sequence=sequence,
        transactional=True,
    )
    request = produce_request(topic, records, acks=-1, transactional_id=who[0], partitions=(partition,))
    reply = await client.ask(request, version)
    return int(reply.responses[0].partition_responses[0].error_code)


async def values(world: NodeWorld, topic: str, partition: int = 0, *, committed: bool) -> list[bytes | None]:
    """What a consumer makes of what it fetches from the start."""
    client = await world.connect()
    request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=int(committed))
    wanted = FetchPartition(partition, partition_max_bytes=1 << 20)
    request.topics = [FetchTopic(topic, partitions=[wanted])]
    data = (await client.ask(request, 11)).responses[0].partitions[0]
    client.close()
    assert data.error_code == 0
    aborted = {each.producer_id: each.first_offset for each in data.aborted_transactions or ()}
    found: list[bytes | None] = []
    raw = bytes(data.records)
    for at, header in batches(raw):
        if header.is_control:
            aborted.pop(header.producer_id, None)
        elif header.base_offset < aborted.get(header.producer_id, header.base_offset + 1):
            found += [record.value for record in read_records(raw, at)]
    return found


def state_of(world: NodeWorld, name: str) -> str:
    shard = world.node.parts.transactions.shard_for(name)
    return shard.transactions[name].state.title
