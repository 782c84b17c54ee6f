"""python -m bench.console [--topics N] [--groups N] [--rounds N] [--json FILE]: what pages cost.

A node of headrace gets so many topics of a partition and groups that have committed in one of them, and a
console looks at it; both are processes of their own. Times are those of whole answers over a connection that
is open, as a page asks for them: first everything, then every few seconds what has changed. "First view" is
the page, its modules and the first list, one request after the other. The looks of the console at the cluster
go on meanwhile, so the longest of the rounds is told too.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.brokers import Headrace
from bench.machine import rss_mb
from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin, OffsetAndMetadata
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest

TOPICS_AT_ONCE = 500
GROUPS_AT_ONCE = 20
LOOK_S_MAX = 300.0
ASSETS = ("app.js", "api.js", "dom.js", "dialogs.js", "format.js", "chart.js", "table.js", "console.css")

Figures = dict[str, float]


def topic_name(number: int) -> str:
    return f"team-{number % 40}.service-{number}.events"


async def fill(bootstrap: str, topics: int, groups: int) -> None:
    async with AsyncAdmin(bootstrap_servers=bootstrap, default_api_timeout_ms=300_000) as admin:
        for first in range(0, topics, TOPICS_AT_ONCE):
            some = [CreatableTopic(topic_name(at), 1, 1) for at in range(first, first + TOPICS_AT_ONCE)]
            reply = await admin.client.call(CreateTopicsRequest(some, 120_000))
            assert not any(each.error_code for each in reply.topics), reply.topics[0].error_message
        for first in range(0, groups, GROUPS_AT_ONCE):
            numbers = range(first, first + GROUPS_AT_ONCE)
            await asyncio.gather(*(commit(admin, number) for number in numbers))


async def commit(admin: AsyncAdmin, number: int) -> None:
    offsets = {TopicPartition(topic_name(number), 0): OffsetAndMetadata(0)}
    await admin.alter_group_offsets(f"group-{number}", offsets)


class Visitor:
    """A browser's requests, on one connection."""

    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=LOOK_S_MAX)

    def get(self, path: str) -> tuple[bytes, float]:
        """The answer, packed as it is sent, and how long it took in milliseconds."""
        began = time.perf_counter()
        self._connection.request("GET", path)
        reply = self._connection.getresponse()
        body = reply.read()
        took_ms = (time.perf_counter() - began) * 1000
        assert reply.status == 200, body[:200]
        return body, took_ms

    def ask(self, path: str) -> Any:
        return json.loads(self.get(f"/api/clusters/cluster/{path}")[0])

    def close(self) -> None:
        self._connection.close()


@contextmanager
def console(bootstrap: str) -> Iterator[tuple[str, int]]:
    """Where a console listens, and its process."""
    command = [
        sys.executable,
        "-m",
        "headrace",
        "console",
        "-b",
        bootstrap,
        "--listen",
        "127.0.0.1:0",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["ready"], process.pid
        process.terminate()


def pages(visitor: Visitor) -> dict[str, Callable[[], list[str]]]:
    """Of each page, what it asks for. Versions of lists are those of the answer before."""
    versions = {table: visitor.ask(table)["version"] for table in ("topics", "groups")}

    def later(table: str) -> list[str]:
        path = f"{table}?since={versions[table]}"
        versions[table] = visitor.ask(path)["version"]
        return [f"{table}?since={versions[table]}"]

    topic = f"topics/{topic_name(1)}"
    return {
        "overview": lambda: ["overview"],
        "topics, first": lambda: ["topics"],
        "topics, then": lambda: later("topics"),
        "groups, first": lambda: ["groups"],
        "groups, then": lambda: later("groups"),
        "a topic's messages": lambda: [topic, f"{topic}/messages"],
        "a topic's settings": lambda: [topic, f"{topic}/configs"],
        "a group": lambda: ["groups/group-1"],
        "brokers": lambda: ["brokers"],
        "transactions": lambda: ["transactions"],
        "reassignments": lambda: ["reassignments"],
        "jump": lambda: ["find?q=service-77"],
    }


def measure(url: str, rounds: int) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    with closing(Visitor(url)) as visitor:
        began = time.perf_counter()
        visitor.ask("overview")
        found["first look at the cluster"] = {"ms": (time.perf_counter() - began) * 1000}
        for name, paths in pages(visitor).items():
            times, size = [], 0
            for _ in range(rounds):
                answers = [visitor.get(f"/api/clusters/cluster/{path}") for path in paths()]
                times.append(sum(took_ms for _, took_ms in answers))
                size = sum(len(body) for body, _ in answers)
            found[name] = {"ms": statistics.median(times), "longest ms": max(times), "bytes": size}
        views = []
        for _ in range(rounds):
            wanted = ["/", "/api/session", *(f"/assets/{each}" for each in ASSETS), "/assets/pages/topics.js"]
            views.append(sum(visitor.get(each)[1] for each in (*wanted, "/api/clusters/cluster/topics")))
        found["first view of topics"] = {"ms": statistics.median(views), "longest ms": max(views)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with Headrace() as broker:
        began = time.monotonic()
        asyncio.run(fill(broker.address, options.topics, options.groups))
        print(f"{options.topics} topics, {options.groups} groups, made in {time.monotonic() - began:.0f} s")
        with console(broker.address) as (url, pid):
            found = measure(url, options.rounds)
            found["memory"] = {"MB": rss_mb(pid)}
    for name, figures in found.items():
        shown = "  ".join(f"{figure} {value:,.0f}" for figure, value in figures.items())
        print(f"{name:28} {shown}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
