"""`headrace top`: what it tells of a cluster, what keys do, and how it looks in a terminal.

What it tells of Apache Kafka is in test_group.py, which has one that runs.
"""

import fcntl
import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import ExitStack

import pytest
from click.testing import CliRunner
from rich.console import Console, Group

from headrace.base.ids import TopicPartition
from headrace.cli.main import cli
from headrace.cli.top_figures import BrokerRow, Figures, figures
from headrace.cli.top_looking import GroupLook, Look, MetricsAddress, Scrape, read_metrics
from headrace.cli.top_view import PAGES, Screen, draw, keys_of
from headrace.clients import (
    Admin,
    ClusterDescription,
    GroupListing,
    LogDirDescription,
    OffsetAndMetadata,
    Producer,
    ShareConsumer,
    TopicDescription,
)
from headrace.clients.internals.admin.cluster import BrokerDescription
from headrace.clients.internals.admin.topics import TopicPartitionInfo
from headrace.testing import Cluster
from headrace.transport.system_network import free_ports
from tests.compat.clients.face import eventually

METRICS = """
kafka_broker_info{id="1",address="a:1"} 1.0
kafka_server_brokertopicmetrics_bytesin_total{topic=""} %(bytes)d
kafka_server_brokertopicmetrics_bytesin_total{topic="t"} %(bytes)d
kafka_log_log_size{topic="t",partition="0"} 7
kafka_network_requestmetrics_requests_total{request="Produce",version="12"} %(requests)d
kafka_network_requestmetrics_requests_total{request="Produce",version="11"} 5
kafka_network_requestmetrics_errors_total{request="Produce",error="X"} 1
kafka_network_requestmetrics_localtimems_bucket{request="Produce",le="0.5"} %(quick)d
kafka_network_requestmetrics_localtimems_bucket{request="Produce",le="1.0"} %(requests)d
kafka_network_requestmetrics_localtimems_bucket{request="Produce",le="+Inf"} %(requests)d
kafka_network_requestmetrics_localtimems_count{request="Produce"} %(requests)d
kafka_network_requestmetrics_localtimems_sum{request="Produce"} %(requests)d
kafka_network_requestmetrics_totaltimems_count{request="Produce"} %(requests)d
kafka_network_requestmetrics_totaltimems_sum{request="Produce"} %(requests)d5
kafka_network_socketserver_networkprocessoravgidle_percent 0.75
"""


def scrape(at_s: float, size: int, requests: int, quick: int = 0) -> Scrape:
    samples = read_metrics(METRICS % {"bytes": size, "requests": requests, "quick": quick})
    assert "kafka_log_log_size" not in samples  # not shown, and there may be very many
    return Scrape("http://a", at_s, 1, samples)


def look(at_s: float, end: int, committed: int, **more: object) -> Look:
    where = TopicPartition("t", 0)
    partitions = [
        TopicPartitionInfo(0, 1, 0, [1, 2], [1], []),
        TopicPartitionInfo(1, -1, 0, [2], [2], [2]),
    ]
    return Look(
        time_ms=0,
        cluster=ClusterDescription(
            "c",
            1,
            [BrokerDescription(1, "a", 1, None, False), BrokerDescription(2, "b", 2, "r", True)],
        ),
        topics=[
            TopicDescription("__consumer_offsets", "", True, []),
            TopicDescription("t", "", False, partitions),
        ],
        ends={where: end},
        ends_at_s=at_s,
        folders=[LogDirDescription(1, "/d", "", {where: 500}, 2000, 1000)],
        groups=[
            GroupLook(GroupListing("g", "classic", "Stable", "consumer", 1), 3, {where: committed}, at_s)
        ],
        **more,  # type: ignore[arg-type]
    )


def two_looks() -> Figures:
    before = look(10.0, 100, 50, scrapes=[scrape(10.0, 1000, 100, 100)])
    return figures(look(12.0, 300, 150, scrapes=[scrape(12.0, 5000, 300, 280)]), before)


def test_rates_are_of_what_changed_between_two_looks() -> None:
    found = two_looks()
    first, fenced = found.brokers
    assert (first.state, first.leaders, first.replicas, first.under_replicated) == ("controller", 1, 1, 1)
    assert (first.records_in_per_s, first.bytes_in_per_s, first.requests_per_s) == (100.0, 2000.0, 100.0)
    assert (first.busy, first.size_bytes, first.free_bytes) == (0.25, 500, 1000)
    assert (fenced.state, fenced.busy, fenced.size_bytes) == ("fenced", None, None)
    _, topic = found.topics
    assert (topic.partitions, topic.replicas, topic.under_replicated, topic.offline) == (2, 2, 1, 1)
    assert (topic.records_in_per_s, topic.bytes_in_per_s, topic.size_bytes) == (100.0, 2000.0, 500)
    [group] = found.groups
    assert (group.lag, group.records_per_s, group.seconds_behind, group.members) == (150, 50.0, 3.0, 3)
    [produce] = found.requests
    assert (produce.request, produce.total, produce.per_s, produce.errors_per_s) == (
        "Produce",
        305,
        100.0,
        0.0,
    )
    assert (produce.average_ms, produce.p99_ms) == (1.0, 1.0)  # 180 of 200 were quicker than 0.5 ms
    assert produce.total_ms == 10.0


def test_groups_are_compared_with_an_earlier_look() -> None:
    """They commit every five seconds: looks of two would tell of none, and then of many."""
    first, second, third = look(10.0, 400, 0), look(18.0, 400, 160), look(20.0, 400, 160)
    assert figures(third, second).groups[0].records_per_s == 0.0
    [group] = figures(third, second, first.groups).groups
    assert (group.records_per_s, group.lag, group.seconds_behind) == (16.0, 240, 15.0)


def test_one_look_has_no_rates_and_a_restart_none_below_zero() -> None:
    alone = figures(look(1.0, 10, 5, scrapes=[scrape(1.0, 10, 10)]), None)
    assert alone.brokers[0].records_in_per_s is None
    assert alone.groups[0].records_per_s is None
    assert alone.requests[0].per_s is None
    assert alone.requests[0].average_ms == 1.0  # since the start
    before = look(0.5, 99, 99, scrapes=[scrape(0.5, 1000, 1000)])
    again = figures(look(1.0, 10, 5, scrapes=[scrape(1.0, 10, 10)]), before)
    assert again.brokers[0].bytes_in_per_s is None
    assert again.topics[1].records_in_per_s == 0.0
    assert again.groups[0].records_per_s == 0.0


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h:1", MetricsAddress("http://h:1/metrics")),
        ("3=h:1", MetricsAddress("http://h:1/metrics", 3)),
        ("https://h:1/m", MetricsAddress("https://h:1/m")),
    ],
)
def test_addresses(text: str, address: MetricsAddress) -> None:
    assert MetricsAddress.parse(text) == address
    with pytest.raises(ValueError, match="HOST:PORT"):
        MetricsAddress.parse("nowhere")


def press(screen: Screen, typed: str) -> Screen:
    for key in keys_of(typed):
        screen.press(key)
    return screen


def test_keys() -> None:
    assert keys_of("q\x1b[A\x1b[5~\x1bx\x1b") == ["q", "up", "pgup"]  # a sequence without a meaning ends it
    assert keys_of("\x1b") == ["esc"]
    screen = press(Screen(), "3")
    assert screen.page.name == "groups"
    assert press(screen, "\t").page.name == "requests"
    assert press(screen, "\t").page.name == "brokers"
    assert press(screen, "\x1b[C").sorts["brokers"] == "address"
    assert press(screen, "\x1b[D\x1b[D").sorts["brokers"] == PAGES[0].columns[-1].field
    assert press(Screen(), "+").interval_s == 1.0
    assert press(Screen(), "-----").interval_s == 30.0
    assert press(Screen(), "/ab\x7fc\r").filter == "ac"
    assert press(Screen(), "/q\x1b").filter == ""
    assert not press(Screen(), "?1").page_number  # any key only ends the help
    assert press(Screen(), "p").is_paused
    assert press(Screen(), "\x03").is_over


def brokers(count: int) -> Figures:
    rows = [
        BrokerRow(n, f"host-{n}:9092", None, "up", n % 7, n, 0, float(n), n, n, *[None] * 6)
        for n in range(1, count + 1)
    ]
    return two_looks()._replace(brokers=rows)


def test_rows_are_ordered_and_filtered() -> None:
    found = brokers(30)
    screen = Screen()
    assert [each.broker for each in screen.rows(found)] == list(range(1, 31))
    screen.sorts["brokers"] = "leaders"
    assert [each.broker for each in screen.rows(found)][:3] == [6, 13, 20]
    assert [each.broker for each in press(screen, "r").rows(found)][:3] == [7, 14, 21]
    screen.sorts["brokers"] = "busy"  # of which nothing is known
    assert len(screen.rows(found)) == 30
    topics = press(Screen(), "2")
    assert [each.topic for each in topics.rows(found)] == ["t"]
    assert len(press(topics, "i").rows(found)) == 2
    assert press(topics, "/CONSUMER\r").rows(found)[0].internal


@pytest.mark.parametrize("page", ["1", "2", "3", "4", "?"])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 8)])
def test_a_screen_is_never_too_large(page: str, width: int, height: int) -> None:
    found = brokers(100)
    found.topics[1] = found.topics[1]._replace(topic="x" * 249)
    found.groups[0] = found.groups[0]._replace(group="\x1b[2J\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 60)
    screen = press(Screen(), page)
    lines = draw(screen, found, width=width, height=height)
    assert len(lines) == height
    assert max(line.cell_len for line in lines) <= width
    assert "\x1b" not in "".join(line.plain for line in lines)
    out = io.StringIO()
    Console(file=out, width=width, height=height).print(Group(*lines))
    assert len(out.getvalue().splitlines()) == height  # nothing was wrapped


def test_what_fits_80_columns() -> None:
    found = two_looks()
    text = "\n".join(line.plain for line in draw(Screen(), found, width=80, height=24))
    assert "1 partition offline, 1 under-replicated, 1 broker fenced  100 records/s" in text
    for title in ("BROKER▲", "STATE", "LEADS", "LACKING", "RECORDS/s", "IN/s", "REQ/s", "BUSY", "FREE"):
        assert title in text
    groups = "\n".join(line.plain for line in draw(press(Screen(), "3"), found, width=80, height=24))
    assert "LAG▼" in groups
    assert "3 s" in groups
    shop = "orders-of-the-shop-in-"
    names = (f"{shop}paris", f"{shop}rome", f"{shop}the-street-that-leads-to-ostia")
    topics = [found.topics[1]._replace(topic=each, size_bytes=1 << 40) for each in names]
    shown = draw(press(Screen(), "2"), found._replace(topics=topics), width=80, height=24)
    cells = [line.plain.split()[0] for line in shown[5:8]]
    assert (cells[0], cells[1]) == names[:2], "columns give way to names"
    assert cells[2] == f"{shop}…ds-to-ostia", "what does not fit has its end"


def test_scrolling_stays_within_the_rows() -> None:
    found = brokers(100)
    screen = press(Screen(), "\x1b[F")
    shown = [line.plain for line in draw(screen, found, width=80, height=24)]
    assert shown[-2].startswith("100")
    assert screen.first == 100 - screen.page_lines
    assert "below" not in shown[-1]
    shown = [line.plain for line in draw(press(screen, "\x1b[H"), found, width=80, height=24)]
    assert shown[5].startswith("1 ")
    assert "  82 below" in shown[-1]


def test_a_cluster_that_does_not_answer_is_said() -> None:
    first = draw(Screen(), None, width=80, height=24, problem="no broker answers")
    assert "no broker answers" in "\n".join(line.plain for line in first)
    later = draw(Screen(), two_looks(), width=120, height=24, problem="no broker answers")
    assert "no broker answers" in later[1].plain


def _make_groups(cluster: Cluster, stack: ExitStack) -> None:
    """A classic one, and a share group whose member has read nothing of three records yet."""
    at = {"bootstrap_servers": cluster.bootstrap_servers}
    admin = stack.enter_context(Admin(**at))
    admin.create_topic("work")
    admin.alter_group_offsets("classic", {TopicPartition("work", 0): OffsetAndMetadata(0)})
    admin.alter_configs("group", "workers", set_to={"share.auto.offset.reset": "earliest"})
    with Producer(**at) as producer:
        for _ in range(3):
            producer.send("work", b"x")
    member = stack.enter_context(ShareConsumer(**at, group_id="workers"))
    member.subscribe(["work"])
    assert eventually(lambda: member.poll(0.1), "it has records")


def test_metrics_make_it_richer() -> None:
    [port] = free_ports(1)
    settings = {"headrace.metrics.listener": f"HTTP://127.0.0.1:{port}", "headrace.metrics.token": "secret"}
    with Cluster(settings=settings) as cluster, ExitStack() as stack:
        _make_groups(cluster, stack)
        words = ["top", "--once", "--interval", "100ms", "-b", cluster.bootstrap_servers]
        asked = [*words, "--json", "--metrics", f"127.0.0.1:{port}"]
        told = json.loads(CliRunner().invoke(cli, asked, env={"HEADRACE_METRICS_TOKEN": "secret"}).output)
        assert told["notes"] == []
        assert told["brokers"][0]["requests_per_s"] > 0
        kinds = {each["request"]: each["errors_per_s"] for each in told["requests"]}
        assert {"Metadata", "ListGroups"} <= kinds.keys()
        assert not any(kinds.values()), "looking makes no errors"
        assert {each["group"]: (each["type"], each["members"], each["lag"]) for each in told["groups"]} == {
            "classic": ("classic", 0, 3),
            "workers": ("share", 1, 3),
        }
        refused = json.loads(CliRunner().invoke(cli, asked, env={"HEADRACE_METRICS_TOKEN": "wrong"}).output)
        assert "401" in refused["notes"][0]
        assert refused["brokers"][0]["requests_per_s"] is None
        printed = CliRunner().invoke(cli, [*words, "--page", "requests"])
        assert "--metrics HOST:PORT" in printed.stderr


class Terminal:
    """`headrace top` in a terminal of 80x24."""

    def __init__(self, bootstrap: str) -> None:
        self._own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        words = [sys.executable, "-m", "headrace", "top", "-b", bootstrap, "--interval", "500ms"]
        environment = {**os.environ, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(words, stdin=other, stdout=other, stderr=other, env=environment)
        os.close(other)
        self.shown = ""

    def until(self, text: str) -> None:
        """Wait until this was drawn; what came before it is forgotten."""
        deadline = time.monotonic() + 240
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._own], [], [], 0.5)[0]:
                self.shown += os.read(self._own, 65536).decode(errors="replace")
        self.shown = self.shown.split(text, 1)[1]

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)


def test_live_in_a_terminal() -> None:
    with Cluster() as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("orders")
        terminal = Terminal(cluster.bootstrap_servers)
        try:
            terminal.until("BROKER")
            terminal.type("2")
            terminal.until("orders")
            admin.create_topic("invoices")
            terminal.until("invoices")
            terminal.type("q")
            terminal.until("\x1b[?1049l")  # the screen as it was
            assert terminal.process.wait(60) == 0
        finally:
            terminal.close()
