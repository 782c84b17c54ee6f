"""python -m bench.console [--topics N] [--groups N] [--records N] [--rounds N] [--json FILE]: pages' costs.

A node of headrace gets so many topics of a partition and groups that have committed in one of them, and a
partition with so many records more, and a console looks at it; both are processes of their own. Times are
those of whole answers over a connection that is open, as a page asks for them: first everything, then every
few seconds what has changed. "First view" is the page, its modules and the first list, one request after the
other. The looks of the console at the cluster go on meanwhile, so the longest of the rounds is told too.
"""

import argparse
import asyncio
import json
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crc32c import crc32c

from bench.brokers import Headrace
from bench.machine import rss_mb
from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin, OffsetAndMetadata
from headrace.records.batch import Record, build_batch
from headrace.records.codecs import Codec
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPICS_AT_ONCE = 500
GROUPS_AT_ONCE = 20
LOOK_S_MAX = 300.0
LONG = "history"
BATCH_RECORDS = 10_000
BATCHES_AT_ONCE = 20
FIRST_MS = 1_700_000_000_000
"""When the first record of the long partition was written; the others follow a millisecond each."""
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


async def fill_long(bootstrap: str, records: int) -> None:
    """A partition with so many records of some 100 bytes, in compressed batches as producers send them."""
    rows = [
        Record(
            0,
            at,
            b"user-%d" % (at % 97),
            json.dumps({"n": at, "user": f"user-{at % 97}", "ok": True}).encode(),
        )
        for at in range(BATCH_RECORDS)
    ]
    template = bytes(build_batch(rows, codec=Codec.ZSTD))
    async with AsyncAdmin(bootstrap_servers=bootstrap, default_api_timeout_ms=300_000) as admin:
        keep = [CreatableTopicConfig("retention.ms", "-1")]
        topic = CreatableTopic(LONG, 1, 1, configs=keep)
        assert not (await admin.client.call(CreateTopicsRequest([topic], 120_000))).topics[0].error_code
        await admin.describe_topics(LONG)

        async def write(first: int) -> None:
            data = [
                TopicProduceData(
                    LONG, bytes(16), [PartitionProduceData(0, _dated(template, FIRST_MS + first))]
                )
            ]
            reply = await admin.client.call(ProduceRequest(None, 1, 60_000, data), node=1, at_most=11)
            assert not reply.responses[0].partition_responses[0].error_code

        for first in range(0, records, BATCH_RECORDS * BATCHES_AT_ONCE):
            upto = min(records, first + BATCH_RECORDS * BATCHES_AT_ONCE)
            await asyncio.gather(*(write(each) for each in range(first, upto, BATCH_RECORDS)))


def _dated(batch: bytes, first_ms: int) -> bytes:
    """The same batch, written at another time: both times and the checksum are at fixed places."""
    made = bytearray(batch)
    struct.pack_into(">qq", made, 27, first_ms, first_ms + BATCH_RECORDS - 1)
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


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

    def first_event(self, path: str) -> float:
        """After how many milliseconds a stream tells something; it is left then."""
        began = time.perf_counter()
        self._connection.request("GET", f"/api/clusters/cluster/{path}")
        reply = self._connection.getresponse()
        assert reply.status == 200, reply.read()
        reply.readline()
        took_ms = (time.perf_counter() - began) * 1000
        reply.close()
        self._connection.close()
        return took_ms

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


def measure_long(url: str, records: int, rounds: int) -> dict[str, Figures]:
    """Pages of a partition that nobody could read to its end."""
    half = records // 2
    messages = f"topics/{LONG}/messages"
    wanted = {
        "newest": messages,
        "oldest": f"{messages}?from=oldest",
        "from an offset": f"{messages}?from=offset&offset={half}",
        "from a time": f"{messages}?from=time&time={FIRST_MS + half}",
        "partitions": f"topics/{LONG}",
        "a piece of a search": f"{messages}?q=nowhere",
        "a piece by a condition": f"{messages}?json=n+%3C+0",
    }
    found: dict[str, Figures] = {}
    with closing(Visitor(url)) as visitor:
        for name, path in wanted.items():
            times, scanned = [], 0
            for _ in range(rounds):
                body, took_ms = visitor.get(f"/api/clusters/cluster/{path}")
                times.append(took_ms)
                scanned = json.loads(body).get("scanned", 0)
            figures = {"ms": statistics.median(times), "longest ms": max(times), "looked at": scanned}
            found[f"{records // 10**6} M records: {name}"] = figures
        times = [visitor.first_event(f"topics/{LONG}/keys?time={FIRST_MS + half}") for _ in range(rounds)]
        found["time travel, first word"] = {"ms": statistics.median(times), "longest ms": max(times)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with Headrace() as broker:
        began = time.monotonic()
        asyncio.run(fill(broker.address, options.topics, options.groups))
        print(f"{options.topics} topics, {options.groups} groups, made in {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        asyncio.run(fill_long(broker.address, options.records))
        print(f"{options.records} records, written in {time.monotonic() - began:.0f} s", flush=True)
        with console(broker.address) as (url, pid):
            found = measure(url, options.rounds) | measure_long(url, options.records, options.rounds)
            found["memory"] = {"MB": rss_mb(pid)}
    for name, figures in found.items():
        shown = "  ".join(f"{figure} {value:,.0f}" for figure, value in figures.items())
        print(f"{name:28} {shown}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
