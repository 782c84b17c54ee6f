"""What pages ask the console for, over HTTP, on a node in this process: looking, changing, refusals."""

import asyncio
import json
import logging
import uuid
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, AsyncAdmin, OffsetAndMetadata, Producer
from headrace.clients.internals.coordinator_client import CoordinatorClient, CoordinatorKind
from headrace.console import reading_limits
from headrace.console.cluster_connection import ClusterSpec
from headrace.records.batch import Record, build_batch
from headrace.testing.cluster import Cluster
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.wire.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from tests.compat.clients.face import eventually
from tests.console.visitors import Visitor, running_console

HOSTILE = [
    b"<script>alert(1)</script>",
    b'{"html": "<img src=x onerror=alert(1)>"}',
    b"\x00\x01\x02\x03\xff\xfe",
    b"\x1b[31mred\x1b[0m",
    "\u202egnp.exe".encode(),
]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {
        "auto.create.topics.enable": "false",
        "transaction.partition.verification.enable": "false",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    }
    with Cluster(settings=settings) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def address(bootstrap: str) -> Iterator[tuple[str, int]]:
    with running_console([ClusterSpec("c", {"bootstrap.servers": bootstrap})]) as address:
        yield address


@pytest.fixture
def visitor(address: tuple[str, int]) -> Visitor:
    return Visitor(address)


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Two partitions with 30 records each, one a second of 1970's first ones."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=2, configs={"retention.ms": "-1"})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(60):
            value = json.dumps({"n": number, "user": {"name": f"u{number % 4}"}}).encode()
            key = f"key-{number % 5}".encode()
            place = {"partition": number % 2, "timestamp_ms": number * 1000}
            producer.send(
                name, value, key=key, headers=(("kind", b"even" if number % 2 == 0 else b"odd"),), **place
            )
        producer.flush()
    return name


def test_overview_says_that_all_is_well(visitor: Visitor, topic: str) -> None:
    eventually(lambda: visitor.get("overview")["topics"] > 0, "the picture has the topic")
    found = visitor.get("overview")
    assert found["troubles"] == []
    assert (found["brokers"], found["brokers_up"]) == (1, 1)
    assert found["partitions"] == found["in_sync"] > 0


def test_topics_have_records_sizes_and_lag(visitor: Visitor, topic: str, bootstrap: str) -> None:
    group = f"g-{topic}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        offsets = {
            TopicPartition(topic, 0): OffsetAndMetadata(10),
            TopicPartition(topic, 1): OffsetAndMetadata(30),
        }
        admin.alter_group_offsets(group, offsets)

    def row() -> dict[str, object]:
        return next((each for each in visitor.get("topics")["topics"] if each["name"] == topic), {})

    eventually(lambda: row().get("lag") == 20, "the picture has the group's lag")
    assert (row()["partitions"], row()["records"], row()["groups"]) == (2, 60, 1)
    assert row()["bytes"] > 0
    described = visitor.get(f"topics/{topic}")
    assert [(each["start"], each["end"], each["leader"]) for each in described["partitions"]] == [
        (0, 30, 1)
    ] * 2
    assert described["groups"] == [{"group": group, "lag": 20, "state": "Empty"}]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("from=newest&limit=4", [59, 58, 57, 56]),
        ("from=oldest&limit=3", [0, 1, 2]),
        ("from=offset&offset=28", [56, 57, 58, 59]),
        ("from=offset&offset=-1", [58, 59]),
        ("from=time&time=50000&limit=2", [50, 51]),
        ("from=oldest&partition=1&limit=2", [1, 3]),
        ("from=newest&q=U3&limit=2", [59, 55]),
        ("from=oldest&key=key-4&limit=2", [4, 9]),
        ("from=oldest&header=kind%3Dodd&limit=2", [1, 3]),
        ("from=oldest&json=n+%3E%3D+57", [57, 58, 59]),
        ("from=newest&json=user.name+%3D+u1&limit=2", [57, 53]),
        ("from=oldest&json=absent", []),
    ],
)
def test_messages_from_anywhere_and_filtered(
    visitor: Visitor, topic: str, query: str, numbers: list[int]
) -> None:
    page = visitor.get(f"topics/{topic}/messages?{query}")
    assert [json.loads(each["value"]["data"])["n"] for each in page["records"]] == numbers
    assert {each["value"]["kind"] for each in page["records"]} <= {"json"}


@pytest.mark.parametrize("form", ["newest", "oldest"])
def test_pages_follow_each_other_without_a_gap(visitor: Visitor, topic: str, form: str) -> None:
    seen: list[int] = []
    at = ""
    while True:
        page = visitor.get(f"topics/{topic}/messages?from={form}&limit=7" + (f"&at={at}" if at else ""))
        seen += [json.loads(each["value"]["data"])["n"] for each in page["records"]]
        at = page["at"]
        if page["is_done"]:
            break
    assert seen == (list(range(60)) if form == "oldest" else list(range(59, -1, -1)))


def test_hostile_messages_are_told_as_they_are(visitor: Visitor, topic: str, bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for each in HOSTILE:
            producer.send(topic, each, key=each, headers=((each.decode("latin-1"), each),), partition=0)
            producer.flush()
    reply, content = visitor.send("GET", f"/api/clusters/c/topics/{topic}/messages?partition=0&limit=5")
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    records = json.loads(content)["records"]
    kinds = [each["value"]["kind"] for each in records]
    assert sorted(kinds) == ["bytes", "json", "text", "text", "text"]
    assert {each["value"]["data"] for each in records} >= {"<script>alert(1)</script>", "\u202egnp.exe"}


def test_a_large_value_is_cut_and_can_be_saved_in_full(visitor: Visitor, topic: str) -> None:
    value = json.dumps({"text": "x" * 900_000})
    written = visitor.change(
        "POST", f"topics/{topic}/messages", {"key": None, "value": value, "partition": 1}
    )
    place = f"partition=1&offset={written['offset']}"
    [record] = visitor.get(f"topics/{topic}/messages?from=offset&{place}&limit=1")["records"]
    assert record["value"]["cut"] is True
    assert record["value"]["size"] == len(value)
    assert len(record["value"]["data"]) == 64 << 10
    reply, content = visitor.send("GET", f"/api/clusters/c/topics/{topic}/value?{place}")
    assert content == value.encode()
    assert reply.headers["Content-Disposition"].startswith("attachment")


def test_the_tail_shows_what_comes(visitor: Visitor, topic: str) -> None:
    connection = HTTPConnection(*visitor.address, timeout=60)
    connection.request(
        "GET", f"/api/clusters/c/topics/{topic}/tail?q=wanted", headers={"Cookie": visitor.cookie}
    )
    stream = connection.getresponse()
    assert stream.headers["Content-Type"] == "text/event-stream"
    assert b"started" in stream.readline()
    visitor.change("POST", f"topics/{topic}/messages", {"value": "passed over"})
    visitor.change("POST", f"topics/{topic}/messages", {"value": "the wanted one"})
    seen: list[str] = []
    while not seen:
        line = stream.readline()
        if line.startswith(b"data: "):
            seen += [each["value"]["data"] for each in json.loads(line[6:])["records"]]
    assert seen == ["the wanted one"]
    connection.close()


def test_topics_are_followed_by_so_many_and_no_more(
    visitor: Visitor, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_limits, "STREAMS_MAX", 0)
    for path in ("tail", "keys?time=7000"):
        code, reason = visitor.refused("GET", f"topics/{topic}/{path}")
        assert (code, "close some pages" in reason) == (503, True)


def test_keys_as_they_were_at_a_moment(visitor: Visitor, topic: str) -> None:
    *steps, found = visitor.events(f"topics/{topic}/keys?time=7000")
    assert [steps[-1][each] for each in ("scanned", "total", "found")] == [8, 8, 5]
    values = {each["key"]["data"]: json.loads(each["value"]["data"])["n"] for each in found["records"]}
    assert values == {"key-0": 5, "key-1": 6, "key-2": 7, "key-3": 3, "key-4": 4}
    assert not found["is_full"]


def test_a_topic_is_made_changed_and_deleted(visitor: Visitor, caplog: pytest.LogCaptureFixture) -> None:
    name = f"made-{uuid.uuid4().hex[:6]}"
    caplog.set_level(logging.INFO, "headrace.console.audit")
    visitor.change("POST", "topics", {"name": name, "partitions": 3, "configs": {"retention.ms": "5000"}})
    visitor.change("POST", f"topics/{name}/partitions", {"count": 4})
    assert len(visitor.get(f"topics/{name}")["partitions"]) == 4
    changed = visitor.change(
        "PATCH", f"topics/{name}/configs", {"set": {"max.message.bytes": "2000"}, "delete": ["retention.ms"]}
    )
    own = {each["name"]: each["value"] for each in changed["configs"] if each["is_own"]}
    assert own == {"max.message.bytes": "2000"}
    assert all(each["doc"] for each in changed["configs"])
    assert visitor.refused("DELETE", f"topics/{name}", {"confirm": "other"})[0] == 400
    visitor.change("DELETE", f"topics/{name}", {"confirm": name})
    assert name not in {each["name"] for each in visitor.get("topics")["topics"]}
    assert visitor.refused("GET", f"topics/{name}")[0] == 404
    lines = [
        json.loads(each.getMessage()) for each in caplog.records if each.name == "headrace.console.audit"
    ]
    done = [(each["change"], each["result"]) for each in lines]
    assert done[0] == ("create topic", "done")
    assert done[3][1].startswith("refused: to delete the topic")
    assert done[4] == ("delete topic", "done")
    assert lines[2]["on"] == {"topic": name, "set": ["max.message.bytes"], "delete": ["retention.ms"]}
    assert "2000" not in json.dumps(lines[2]), "an audit line has names, and no values"


def test_bytes_are_written_as_they_are(visitor: Visitor, topic: str) -> None:
    body = {
        "key": {"base64": "AP8="},
        "value": None,
        "headers": [{"name": "h", "value": "v"}, {"name": "none", "value": None}],
        "partition": 1,
    }
    written = visitor.change("POST", f"topics/{topic}/messages", body)
    query = f"from=offset&partition=1&offset={written['offset']}"
    [record] = visitor.get(f"topics/{topic}/messages?{query}")["records"]
    assert (record["key"]["kind"], record["key"]["data"], record["value"]) == ("bytes", "AP8=", None)
    assert [each["name"] for each in record["headers"]] == ["h", "none"]
    assert visitor.refused("POST", f"topics/{topic}/messages", {"value": {"base64": "?"}})[0] == 400
    assert visitor.refused("POST", "topics/not-there/messages", {"value": "x"})[0] in (404, 409, 504)


def test_records_are_deleted(visitor: Visitor, topic: str) -> None:
    visitor.change("POST", f"topics/{topic}/delete-records", {"confirm": topic, "before": {"0": 10}})
    assert [each["start"] for each in visitor.get(f"topics/{topic}")["partitions"]] == [10, 0]
    visitor.change("POST", f"topics/{topic}/delete-records", {"confirm": topic})
    assert visitor.get(f"topics/{topic}/messages")["records"] == []


def test_a_reset_is_planned_first_and_does_what_was_shown(visitor: Visitor, topic: str) -> None:
    group = f"reset-{topic}"
    path = f"groups/{group}"
    made = visitor.change("POST", f"{path}/plan", {"target": "time", "time": 20_000, "topics": [topic]})
    assert [(each["from"], each["to"]) for each in made["changes"]] == [(None, 10), (None, 10)]
    assert any("no group of this name" in each for each in made["notes"])
    assert visitor.refused("GET", path)[0] == 404, "a plan changes nothing"
    visitor.change("POST", f"{path}/offsets", {"offsets": made["changes"]})
    found = visitor.get(path)
    assert [(each["committed"], each["lag"]) for each in found["offsets"]] == [(10, 20), (10, 20)]
    shifted = visitor.change("POST", f"{path}/plan", {"target": "shift", "by": 100})
    assert [(each["to"], each["wanted"]) for each in shifted["changes"]] == [(30, 110), (30, 110)]
    edited = [{"topic": topic, "partition": 1, "to": 7}]
    visitor.change("POST", f"{path}/offsets", {"offsets": edited})
    assert [each["committed"] for each in visitor.get(path)["offsets"]] == [10, 7]
    assert visitor.refused("DELETE", f"{path}/offsets/{topic}", {"confirm": "other"})[0] == 400
    visitor.change("DELETE", f"{path}/offsets/{topic}", {"confirm": topic})
    assert visitor.refused("POST", f"{path}/plan", {"target": "earliest"})[0] == 400
    visitor.change("POST", f"{path}/offsets", {"offsets": edited})
    visitor.change("DELETE", path, {"confirm": group})
    assert group not in {each["group"] for each in visitor.get("groups")["groups"]}


def share_heartbeat(bootstrap: str, group: str, topic: str, epoch: int) -> None:
    """A member comes (0), or goes (-1)."""

    async def ask() -> None:
        async with AsyncAdmin(bootstrap_servers=bootstrap) as admin:
            request = ShareGroupHeartbeatRequest(
                group_id=group, member_id="member-1", member_epoch=epoch, subscribed_topic_names=[topic]
            )
            coordinator = CoordinatorClient(admin.client, group, CoordinatorKind.GROUP)
            answer = await coordinator.patiently(lambda: coordinator.ask(request))
            assert answer.error_code == 0, answer.error_message

    asyncio.run(ask())


def test_a_share_group_has_members_a_place_and_a_lag_and_is_moved(
    visitor: Visitor, topic: str, bootstrap: str
) -> None:
    group = f"share-{topic}"
    path = f"groups/{group}"
    share_heartbeat(bootstrap, group, topic, 0)

    def row() -> dict[str, Any]:
        return next((each for each in visitor.get("groups")["groups"] if each["group"] == group), {})

    eventually(lambda: bool(row()), "it is listed")
    eventually(lambda: len(visitor.get(path)["offsets"]) == 2, "its partitions are known")
    found = visitor.get(path)
    assert (found["type"], [each["id"] for each in found["members"]]) == ("share", ["member-1"])
    planned = visitor.change("POST", f"{path}/plan", {"target": "offset", "offset": 10, "topics": [topic]})
    assert any("has members" in each for each in planned["notes"])
    assert visitor.refused("POST", f"{path}/offsets", {"offsets": planned["changes"]})[0] == 409
    assert visitor.refused("DELETE", path, {"confirm": group})[0] == 409

    share_heartbeat(bootstrap, group, topic, -1)
    planned = visitor.change("POST", f"{path}/plan", {"target": "offset", "offset": 10, "topics": [topic]})
    assert [each["to"] for each in planned["changes"]] == [10, 10]
    visitor.change("POST", f"{path}/offsets", {"offsets": planned["changes"]})
    found = visitor.get(path)
    assert [(each["committed"], each["lag"]) for each in found["offsets"]] == [(10, 20), (10, 20)]
    assert row()["lag"] == 40
    assert {"group": group, "lag": 40, "state": "Empty"} in visitor.get(f"topics/{topic}")["groups"]
    visitor.change("DELETE", f"{path}/offsets/{topic}", {"confirm": topic})
    assert visitor.get(path)["offsets"] == []
    setting, configs = "share.auto.offset.reset", f"{path}/configs"
    visitor.change("PATCH", configs, {"set": {setting: "earliest"}})

    def own() -> dict[str, str]:
        return {each["name"]: each["value"] for each in visitor.get(configs)["configs"] if each["is_own"]}

    eventually(lambda: own() == {setting: "earliest"}, "it begins with the oldest record")
    visitor.change("PATCH", configs, {"delete": [setting]})
    eventually(lambda: own() == {}, "it is as it was")
    visitor.change("DELETE", path, {"confirm": group})
    assert row() == {}


def streams_heartbeat(bootstrap: str, group: str, topic: str) -> None:
    """A member comes, and says that it has begun what it was given."""

    async def run() -> None:
        async with AsyncAdmin(bootstrap_servers=bootstrap) as admin:
            coordinator = CoordinatorClient(admin.client, group, CoordinatorKind.GROUP)

            async def ask(epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
                request = StreamsGroupHeartbeatRequest(
                    group, "member-1", epoch, standby_tasks=[], warmup_tasks=[], **fields
                )
                answer = await coordinator.patiently(lambda: coordinator.ask(request))
                assert answer.error_code == 0, answer.error_message
                return answer

            topology = Topology(0, [Subtopology("0", [topic])])
            fields = {"topology": topology, "process_id": "p", "rebalance_timeout_ms": 60_000}
            answer = await ask(0, active_tasks=[], **fields)
            while not answer.active_tasks:
                answer = await ask(answer.member_epoch, active_tasks=[])
            await ask(answer.member_epoch, active_tasks=answer.active_tasks)

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_streams_group_has_members_and_the_partitions_that_they_read(
    visitor: Visitor, topic: str, bootstrap: str
) -> None:
    group = f"streams-{topic}"
    streams_heartbeat(bootstrap, group, topic)
    found = visitor.get(f"groups/{group}")
    assert (found["type"], found["state"]) == ("streams", "Stable")
    assert [(each["id"], each["partitions"]) for each in found["members"]] == [
        ("member-1", [[topic, 0], [topic, 1]])
    ]
    assert {each["member"] for each in found["offsets"]} == {"member-1"}
    assert visitor.refused("DELETE", f"groups/{group}", {"confirm": group})[0] == 409, "it has a member"


def test_brokers_quorum_and_folders(visitor: Visitor, topic: str) -> None:
    eventually(lambda: visitor.get("brokers")["brokers"][0]["leads"] >= 2, "the picture has the topic")
    found = visitor.get("brokers")
    [broker] = found["brokers"]
    assert found["quorum"]["leader"] == broker["id"]
    assert found["folders"][0]["bytes"] > 0
    names = {each["name"] for each in visitor.get(f"brokers/{broker['id']}/configs")["configs"]}
    assert "log.retention.hours" in names
    assert visitor.get("reassignments") == {"reassignments": []}
    assert (
        visitor.refused("POST", "reassignments", {"topic": topic, "partition": 0, "replicas": [99]})[0] == 409
    )


def test_settings_are_changed_for_one_broker_or_for_all(visitor: Visitor) -> None:
    name, path = "leader.replication.throttled.rate", "brokers/1/configs"

    def found() -> tuple[str, str] | None:
        own = [each for each in visitor.get(path)["configs"] if each["name"] == name and each["is_own"]]
        return (own[0]["value"], own[0]["source"]) if own else None

    visitor.change("PATCH", path, {"set": {name: "1000"}, "for_all": True})
    eventually(lambda: found() == ("1000", "all brokers"), "it is set for all")
    visitor.change("PATCH", path, {"set": {name: "2000"}})
    eventually(lambda: found() == ("2000", "this broker"), "one's own counts more")
    visitor.change("PATCH", path, {"delete": [name]})
    eventually(lambda: found() == ("1000", "all brokers"), "that of all is left")
    visitor.change("PATCH", path, {"delete": [name], "for_all": True})
    eventually(lambda: found() is None, "it is as it was")
    assert visitor.refused("PATCH", path, {"set": {"node.id": "7"}})[0] in (400, 409)


def test_brokers_without_rules_are_open(visitor: Visitor) -> None:
    assert visitor.get("acls") == {"acls": [], "is_open": True}


def test_who_has_not_logged_in_gets_no_tokens(visitor: Visitor) -> None:
    found = visitor.get("tokens")
    assert (found["tokens"], found["missing"][:28]) == ([], "Tokens are for those who log")
    assert "log in first" in visitor.refused("POST", "tokens", {})[1]


def test_quotas_are_set_and_removed(visitor: Visitor) -> None:
    entity = {"user": "<b>ann</b>"}
    found = visitor.change("POST", "quotas", {"entity": entity, "set": {"producer_byte_rate": 1000}})
    assert found["quotas"] == [{"entity": entity, "limits": {"producer_byte_rate": 1000.0}}]
    found = visitor.change("POST", "quotas", {"entity": entity, "remove": ["producer_byte_rate"]})
    assert found["quotas"] == []


def test_transactions_that_are_open_can_be_aborted(visitor: Visitor, topic: str, bootstrap: str) -> None:
    name = f"txn-{topic}"
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open").result(30)
        query = f"topics/{topic}/messages?limit=1"
        assert [each["value"]["data"] for each in visitor.get(query)["records"]] == ["open"]
        [last] = visitor.get(f"{query}&isolation=read_committed")["records"]
        assert json.loads(last["value"]["data"])["n"] == 59, "committed ones are not waited for in vain"
        [row] = [each for each in visitor.get("transactions")["transactions"] if each["id"] == name]
        assert (row["state"], len(row["partitions"]), row["hangs"]) == ("Ongoing", 1, False)
        visitor.change("POST", "transactions/abort", {"id": name})
        states = {each["id"]: each["state"] for each in visitor.get("transactions")["transactions"]}
        assert states[name] in ("PrepareAbort", "CompleteAbort", "Empty")
    assert visitor.refused("POST", "transactions/abort", {"id": "nobody"})[0] == 400


def test_what_no_coordinator_knows_is_found_said_and_ended(
    visitor: Visitor, topic: str, bootstrap: str
) -> None:
    """As a broker or client without KIP-890 could leave it behind."""
    hanging = build_batch(
        [Record(0, 1000, None, b"hanging")],
        producer_id=4711,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = [TopicProduceData(topic, bytes(16), [PartitionProduceData(1, hanging)])]

    async def write() -> None:
        async with AsyncAdmin(bootstrap_servers=bootstrap) as admin:
            request = ProduceRequest("gone", -1, 5_000, data)
            reply = await admin.client.call(request, node=1, at_most=11)
            assert reply.responses[0].partition_responses[0].error_code == 0

    asyncio.run(write())
    found = visitor.get("transactions/hanging")
    assert [
        (each["topic"], each["partition"], each["producer"], each["start"]) for each in found["hanging"]
    ] == [(topic, 1, 4711, 30)]
    assert visitor.get("transactions")["hanging"] == found["hanging"]
    [trouble] = visitor.get("overview")["troubles"]
    assert (trouble["level"], trouble["where"], trouble["link"]) == ("error", f"{topic}-1", "transactions")
    shown = {"topic": topic, "partition": 1, "producer": 4711, "start": 30}
    path = "transactions/abort-hanging"
    assert visitor.refused("POST", path, shown | {"start": 29})[0] == 409
    assert visitor.refused("POST", path, shown | {"topic": "not-there"})[0] == 404
    assert visitor.change("POST", path, shown)["hanging"] == []
    assert visitor.refused("POST", path, shown)[0] == 409
    assert visitor.get("overview")["troubles"] == []
    assert visitor.get("transactions/hanging")["hanging"] == []
    page = visitor.get(f"topics/{topic}/messages?isolation=read_committed&partition=1&limit=1")
    assert json.loads(page["records"][0]["value"]["data"])["n"] == 59, "it is not among the committed ones"


def test_a_transaction_that_is_open_does_not_hang(visitor: Visitor, topic: str, bootstrap: str) -> None:
    """Its records may say that they are old: its coordinator knows it."""
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"old-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", timestamp_ms=1000).result(30)
        assert visitor.get("transactions/hanging")["hanging"] == []
        producer.abort_transaction()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("topics/not-there", 404),
        ("topics/not-there/messages", 404),
        (f"topics/{quote('../../etc/passwd', safe='')}", 409),
        ("groups/not-there", 404),
        ("nothing", 404),
        ("brokers/77/configs", 400),
        ("brokers/x/configs", 400),
    ],
)
def test_what_is_not_there_is_said(visitor: Visitor, path: str, status: int) -> None:
    assert visitor.refused("GET", path)[0] == status


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "from=nowhere", "at=1", "json=%3D", "partition=-1"])
def test_wrong_wishes_are_refused(visitor: Visitor, topic: str, query: str) -> None:
    assert visitor.refused("GET", f"topics/{topic}/messages?{query}")[0] == 400
