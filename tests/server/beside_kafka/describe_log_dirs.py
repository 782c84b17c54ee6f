"""DescribeLogDirs: all, some, none, unknown."""

from headrace.wire.schemas.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import Talk, batch

NEWEST = 5


async def script(talk: Talk) -> None:
    topic = talk.name("logs")
    await talk.topic("logs", 3)
    await talk.ask("fill", produce(topic, batch(5), batch(1)), 12, unordered=True)

    def describe(*indexes: int, name: str = topic) -> DescribeLogDirsRequest:
        return DescribeLogDirsRequest([DescribableLogDirTopic(name, list(indexes))])

    await talk.each_version("three", lambda version: describe(0, 1, 2), unordered=True)
    await talk.ask("one", describe(1), NEWEST)
    await talk.ask("one and an unknown one", describe(1, 9), NEWEST)
    await talk.ask("an unknown topic", describe(0, name=talk.name("none")), NEWEST)
    await talk.ask("none of a topic", describe(), NEWEST)
    await talk.ask("no topics", DescribeLogDirsRequest([]), NEWEST)
    await talk.each_version("an empty list", lambda version: DescribeLogDirsRequest([]))
    everything = await (await talk.begin(DescribeLogDirsRequest(None), NEWEST))
    topics = {topic.name for folder in everything.results for topic in folder.topics}
    talk.lines.append(
        f"all, with the topic: {topic in topics}, with the metadata: {'__cluster_metadata' in topics}"
    )
