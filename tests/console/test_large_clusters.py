"""Ten thousand topics and five thousand groups: what a page gets first, and every few seconds after that."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import (
    AsyncAdmin,
    BrokerDescription,
    ClusterDescription,
    GroupListing,
    TopicPartitionInfo,
)
from headrace.console.api import brokers, groups, overview, topics
from headrace.console.cluster_connection import ClusterConnection, ClusterSpec
from headrace.console.cluster_picture import ClusterPicture, GroupPicture, TopicPicture
from headrace.console.cluster_watch import ClusterWatch
from headrace.console.http_server import ConsoleReply, ConsoleRequest
from headrace.console.row_changes import GONE_MAX, RowChanges
from headrace.console.visit import Visit

TOPICS, GROUPS = 10_000, 5_000
PAGE_BYTES_MAX = 2_500_000
"""Of ten thousand rows, once; a fifth of that packed."""
REFRESH_BYTES_MAX = 4_000


class LargeCluster:
    """Its pictures. A picture is a new one each time, as a look would be."""

    def __init__(self) -> None:
        names = [f"team-{number % 40}.service-{number}.events" for number in range(TOPICS)]
        self.topics = {
            name: TopicPicture(name, "", False, [TopicPartitionInfo(0, 1, 0, [1], [1], [])]) for name in names
        }
        self.ends = {TopicPartition(name, 0): 1000 for name in names}
        self.committed = {f"group-{at}": {TopicPartition(names[at], 0): 900} for at in range(GROUPS)}
        self.taken_ms = 0

    async def take(self, admin: AsyncAdmin) -> ClusterPicture:
        self.taken_ms += 5_000
        cluster = ClusterDescription("id", 1, [BrokerDescription(1, "host", 9092, None, False)])
        made = ClusterPicture(self.taken_ms, cluster)
        made.topics, made.ends = dict(self.topics), dict(self.ends)
        made.starts = dict.fromkeys(self.ends, 0)
        for name, committed in self.committed.items():
            [(place, offset)] = committed.items()
            lag = self.ends[place] - offset
            listing = GroupListing(name, "consumer", "consumer", "Stable", 1)
            made.groups[name] = GroupPicture(listing, committed, lag=lag, topic_lags={place.topic: lag})
            made.topic_groups[place.topic] = {name: lag}
        return made


@asynccontextmanager
async def watched(cluster: LargeCluster) -> AsyncIterator[ClusterWatch]:
    connection = ClusterConnection(ClusterSpec("c", {"bootstrap.servers": "127.0.0.1:1"}))
    watch = ClusterWatch(connection, take=cluster.take)
    yield watch
    await watch.close()


async def asked(
    watch: ClusterWatch, handler: Callable[[Visit], Awaitable[Any]], **query: str
) -> tuple[Any, int]:
    """What a page gets, after a new look at the cluster, and how many bytes it is."""
    watch.changed()
    request = ConsoleRequest("GET", "/", query, {}, b"", "")
    answer = ConsoleReply.json(await handler(Visit(request, {}, watch, "anonymous"))).body
    return json.loads(answer), len(answer)


@pytest.mark.parametrize(("handler", "table"), [(topics.topics, "topics"), (groups.groups, "groups")])
def test_a_list_is_sent_once_and_then_what_changes(
    handler: Callable[[Visit], Awaitable[Any]], table: str
) -> None:
    async def run() -> None:
        cluster = LargeCluster()
        async with watched(cluster) as watch:
            first, size = await asked(watch, handler)
            assert (len(first[table]), first["whole"]) == ({"topics": TOPICS, "groups": GROUPS}[table], True)
            assert size < PAGE_BYTES_MAX
            again, size = await asked(watch, handler, since=first["version"])
            assert (again["whole"], again[table], again["gone"]) == (False, [], [])
            assert size < REFRESH_BYTES_MAX
            # Somebody writes to two topics, and one with its group goes.
            names = list(cluster.topics)
            for name in names[:2]:
                cluster.ends[TopicPartition(name, 0)] += 50
            gone = names[7]
            del cluster.topics[gone], cluster.ends[TopicPartition(gone, 0)], cluster.committed["group-7"]
            later, size = await asked(watch, handler, since=again["version"])
            key = {"topics": "name", "groups": "group"}[table]
            wanted = {"topics": (names[:2], [gone]), "groups": (["group-0", "group-1"], ["group-7"])}[table]
            assert ([each[key] for each in later[table]], later["gone"]) == wanted
            assert size < REFRESH_BYTES_MAX

    asyncio.run(run())


def test_the_other_pages_do_not_grow_with_the_cluster() -> None:
    async def run() -> None:
        async with watched(LargeCluster()) as watch:
            for handler in (overview.overview, overview.find, brokers.brokers):
                _, size = await asked(watch, handler, q="service")
                assert size < 2 * REFRESH_BYTES_MAX, handler
            found, _ = await asked(watch, overview.find, q="SERVICE-77.")
            assert found == {"topics": ["team-37.service-77.events"], "groups": []}

    asyncio.run(run())


def test_a_page_that_takes_what_changed_has_what_is_there() -> None:
    """Whatever happens in between, and however seldom the page asks."""
    dice = random.Random(7)
    rows = RowChanges("name")
    pages: list[tuple[str, dict[str, Any]]] = [("", {}) for _ in range(4)]
    there: dict[str, int] = {}
    partial = 0
    for _ in range(300):
        for _ in range(dice.randrange(4)):
            name = f"n{dice.randrange(12)}"
            if name in there and dice.random() < 0.4:
                del there[name]
            else:
                there[name] = dice.randrange(3)
        at = dice.randrange(len(pages))
        known, shown = pages[at]
        made = [{"name": name, "value": value} for name, value in there.items()]
        version, is_whole, changed, gone = rows.since(known, object(), lambda made=made: made)
        partial += not is_whole
        shown = {} if is_whole else {name: row for name, row in shown.items() if name not in gone}
        shown |= {row["name"]: row for row in changed}
        pages[at] = version, shown
        assert shown == {row["name"]: row for row in made}
    assert partial == 300 - len(pages)


def test_versions_of_others_and_old_ones_get_all_rows() -> None:
    rows = RowChanges("name")
    many = [{"name": str(number)} for number in range(GONE_MAX + 1)]
    version, *_ = rows.since("", many, lambda: many)
    for strange in ("", "x", "1", version + "1", f"{version}.1", RowChanges("name").since("", 0, list)[0]):
        assert rows.since(strange, many, list)[1] is True, strange
    assert rows.since(version, many, list)[1:] == (False, [], [])
    assert rows.since(version, None, list)[1:] == (True, [], []), "too many are gone to name them all"
