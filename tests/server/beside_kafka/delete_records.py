"""DeleteRecords: offsets inside and outside of a log, and topics nobody may delete from."""

from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from tests.server.beside_kafka.list_offsets import find
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import Talk, batch


def delete(topic: str, *wishes: tuple[int, int]) -> DeleteRecordsRequest:
    """Partitions and the offsets before which all goes."""
    partitions = [DeleteRecordsPartition(*wish) for wish in wishes]
    return DeleteRecordsRequest([DeleteRecordsTopic(topic, partitions)], 5_000)


async def script(talk: Talk) -> None:
    talk.title("Offsets")
    topic = talk.name("logs")
    await talk.topic("logs", 2)
    await talk.ask("fill", produce(topic, batch(5)), 12)
    await talk.ask("fill", produce(topic, batch(5)), 12)
    for offset in (0, 3, 2, 3, 11, 100, -2, 7, -1, 10, 0):
        await talk.ask(f"before {offset}", delete(topic, (0, offset)), 2)
        await talk.ask("earliest", find(topic, -2), 11)
    await talk.ask("an empty log, all", delete(topic, (1, -1)), 2)
    await talk.ask("an empty log, before 1", delete(topic, (1, 1)), 2)
    await talk.each_version("nothing", lambda version: delete(topic, (0, 0)))
    talk.title("Refused")
    await talk.each_version("topic", lambda version: delete(talk.name("none"), (0, 0)))
    await talk.each_version("partition", lambda version: delete(topic, (5, 0)))
    await talk.ask("several", delete(topic, (0, 10), (1, 0), (5, 0)), 2, unordered=True)
    await talk.ask("no partitions", delete(topic), 2)
    await talk.ask("no topics", DeleteRecordsRequest([], 1000), 2)
    for policy in ("compact", "compact,delete"):
        name = policy.replace(",", "-")
        await talk.topic(name, cleanup_policy=policy)
        await talk.ask(f"from a topic with {policy}", delete(talk.name(name), (0, -1)), 2)
    await (await talk.begin(FindCoordinatorRequest(coordinator_keys=[talk.name("g")]), 6))
    await talk.pass_time(2_000)
    await talk.ask("from an internal topic", delete("__consumer_offsets", (0, -1)), 2)
    await talk.ask("produce to an internal topic", produce("__consumer_offsets", batch()), 12)
