"""A cluster filled with what pages show, hostile things among it, its console, and Chromium that opens it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, OffsetAndMetadata, Producer
from headrace.console.cluster_connection import ClusterSpec
from headrace.console.cluster_extras import read_extras
from tests.compat import prepare
from tests.compat.stock_kafka import running_either
from tests.console.chromium import Chromium, Tab
from tests.console.pipeline_runs import running_pipeline
from tests.console.visitors import running_console
from tests.schemas.schema_registry import SchemaRegistry

EITHER = ["headrace", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])]
MARKUP = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
GROUP = "<b>group</b>"


@contextmanager
def filled_cluster(system: str, folders: pytest.TempPathFactory) -> Iterator[str]:
    """Where one of `EITHER` listens."""
    with running_either(system, folders, {"auto.create.topics.enable": "false"}) as bootstrap:
        fill(bootstrap)
        yield bootstrap


def fill(bootstrap: str) -> None:
    """A topic of orders, and messages, keys, headers and a group that are made of markup."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic("orders", partitions=2)
        admin.create_topic("hostile", partitions=1)
        admin.create_topic("orders-dead", partitions=1)
        admin.alter_group_offsets(GROUP, {TopicPartition("orders", 0): OffsetAndMetadata(3)})
    long = "sink/" + "of-a-query/" * 6
    with Producer(bootstrap_servers=bootstrap, transactional_id=long) as producer:
        producer.init_transactions()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(20):
            producer.send(
                "orders", json.dumps({"n": number}).encode(), key=b"k%d" % number, partition=number % 2
            )
        for value in (
            MARKUP.encode(),
            json.dumps({MARKUP: MARKUP, "deep": [[MARKUP]]}).encode(),
            "\x00\x07\x1b[31m\u202egnp.exe".encode() + b" text around it",
            bytes(range(256)),
            json.dumps({"large": "<b>" * 300_000}).encode(),
        ):
            producer.send("hostile", value, key=MARKUP.encode(), headers=((MARKUP, MARKUP.encode()),))
        origin = {"topic": b"orders", "partition": b"1", "offset": b"7", "error": MARKUP.encode()}
        headers = tuple((f"headrace.dead-letter.{name}", value) for name, value in origin.items())
        for value in (b"{broken", MARKUP.encode()):
            producer.send("orders-dead", value, key=b"k", headers=headers)
        producer.flush()


@contextmanager
def console_of(bootstrap: str, double: SchemaRegistry) -> Iterator[str]:
    """Where the console's pages of this cluster are; it reads a pipeline and a registry too."""
    with running_pipeline() as run:
        run.batch(lag=500)
        run.batch("dead letters of orders", rows_in=2)
        extras = read_extras({"schema.registry.url": double.url})
        spec = ClusterSpec("c", {"bootstrap.servers": bootstrap}, (run.url,), extras)
        with running_console([spec]) as (host, port):
            yield f"http://{host}:{port}/c"


@contextmanager
def running_chromium(folders: pytest.TempPathFactory) -> Iterator[Chromium]:
    """The test is skipped where there is none."""
    try:
        program, environment = prepare.chromium()
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    with Chromium(program, folders.mktemp("chromium"), environment) as browser:
        yield browser


def show(tab: Tab, url: str, title: str) -> None:
    tab.go(url)
    tab.until(f"document.querySelector('main h1')?.textContent === {json.dumps(title)}")


def press(tab: Tab, key: str) -> None:
    tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
    tab.call("Input.dispatchKeyEvent", type="keyUp", key=key)
