"""The audit trail of a whole node: changes with their outcome, refusals, chosen reads, and no secrets."""

import contextlib
import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.records.batch import batches, read_records
from headrace.server.api_table import BROKER
from headrace.server.auditing import CHANGES
from headrace.settings.definition import SettingError
from headrace.testing.cluster import Cluster
from headrace.testing.disk import Crash
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest
from tests.compat.clients.face import eventually
from tests.security.certificates import LOCAL, Authority
from tests.server.beside_kafka.client_quotas import alter
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import NodeWorld, simulated
from tests.server.quotas.test_throttling import fetch
from tests.server.sasl_world import connect_sasl, log_in, plain, run_with_sasl

FILE = "/audit.jsonl"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


async def events(world: NodeWorld, count: int) -> list[dict[str, Any]]:
    """All that the trail has, once there are so many."""

    def written() -> list[dict[str, Any]]:
        *lines, _ = world.machine.disk.read_file(FILE).split(b"\n")  # what is behind the last end is no line
        return [json.loads(line) for line in lines]

    await world.until(lambda: len(written()) >= count, f"{count} events")
    return written()


def short(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (*(each[key] for key in ("request", "operation", "resource", "name", "allowed")), each.get("error"))
        for each in found
    ]


@simulated(headrace_audit_file=FILE)
async def test_changes_are_told_with_what_became_of_them(world: NodeWorld) -> None:
    client = await world.connect("tool")
    made = [CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 9)]
    await client.ask(CreateTopicsRequest(made, timeout_ms=30_000), 7)
    (found,) = (await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="a")]), 12)).topics
    settings = [AlterableConfig("retention.ms", 0, "12345678"), AlterableConfig("no.such", 0, "x")]
    resources = [AlterConfigsResource(2, "a", settings[:1]), AlterConfigsResource(2, "a2", settings[1:])]
    await client.ask(IncrementalAlterConfigsRequest(resources), 1)
    await client.ask(IncrementalAlterConfigsRequest(resources, validate_only=True), 1)
    await client.ask(alter(({"user": "alice"}, {"producer_byte_rate": 54321.0})), 1)
    gone = [DeleteTopicState(None, found.topic_id), DeleteTopicState(None, b"?" * 16)]
    await client.ask(DeleteTopicsRequest(gone, timeout_ms=30_000), 6)
    told = await events(world, 7)
    assert short(told) == [
        ("CreateTopics", "CREATE", "TOPIC", "a", True, None),
        ("CreateTopics", "CREATE", "TOPIC", "b", True, "INVALID_REPLICATION_FACTOR"),
        ("IncrementalAlterConfigs", "ALTER_CONFIGS", "TOPIC", "a", True, None),
        ("IncrementalAlterConfigs", "ALTER_CONFIGS", "TOPIC", "a2", True, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("AlterClientQuotas", "ALTER_CONFIGS", "CLIENT_QUOTA", "user=alice", True, None),
        ("DeleteTopics", "DELETE", "TOPIC", "a", True, None),
        ("DeleteTopics", "DELETE", "TOPIC", (b"?" * 16).hex(), True, "UNKNOWN_TOPIC_ID"),
    ]
    assert told[0]["principal"] == "User:ANONYMOUS"
    assert (told[0]["client"], told[0]["listener"], told[0]["node"]) == ("tool", "PLAINTEXT", 1)
    assert [told[2]["details"], told[4]["details"]] == [["retention.ms"], ["producer_byte_rate"]]
    text = world.machine.disk.read_file(FILE).decode()
    assert "12345678" not in text
    assert "54321" not in text


@simulated(headrace_audit_file=FILE)
async def test_no_secret_is_in_the_trail(world: NodeWorld) -> None:
    client = await world.connect("tool")
    salt, password = b"salt of alice...", b"secret of alice, salted"
    change = ScramCredentialUpsertion("alice", 1, 8192, salt, password)
    await client.ask(AlterUserScramCredentialsRequest([], [change]), 0)
    (told,) = await events(world, 1)
    assert (told["resource"], told["name"], told["details"]) == ("USER", "alice", ["SCRAM credential set"])
    text = world.machine.disk.read_file(FILE)
    for secret in (salt, password):
        assert secret not in text
        assert secret.hex().encode() not in text


@simulated(headrace_audit_file=FILE, headrace_audit_reads="t,x*", headrace_audit_changes="false")
async def test_chosen_reads_are_told_once(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    other_id = await world.create_topic("other")
    client = await world.connect("reader")
    await client.ask(produce("t", batch(1), topic_id=topic_id), 9)
    for _ in range(5):
        await client.ask(fetch(topic_id), 13)
        await client.ask(fetch(other_id), 13)
    again = await world.connect("another")
    await again.ask(fetch(topic_id), 13)
    told = await events(world, 2)
    assert short(told) == [("Fetch", "READ", "TOPIC", "t", True, None)] * 2
    assert [each["client"] for each in told] == ["reader", "another"]


@simulated(headrace_audit_file=FILE, authorizer_class_name=AUTHORIZER, super_users="User:somebody")
async def test_who_is_refused_is_told(world: NodeWorld) -> None:
    client = await world.connect("curious")
    await client.ask(CreateTopicsRequest([CreatableTopic("mine", 1, 1)], timeout_ms=30_000), 7)
    await client.ask(produce("mine", batch(1)), 9)
    found = short(await events(world, 2))
    assert {(request, resource, name, allowed) for request, _, resource, name, allowed, _ in found} == {
        ("CreateTopics", "TOPIC", "mine", False),
        ("Produce", "TOPIC", "mine", False),
    }


@simulated(headrace_audit_file=FILE)
async def test_the_trail_goes_on_after_a_stop_and_after_it_was_moved(world: NodeWorld) -> None:
    async def make(*names: str) -> None:
        client = await world.connect("tool")
        topics = [CreatableTopic(name, 1, 1) for name in names]
        await client.ask(CreateTopicsRequest(topics, timeout_ms=30_000), 7)

    await make("a")
    await world.stop()
    await world.start()
    await make("b")
    assert [each["name"] for each in await events(world, 2)] == ["a", "b"]
    world.machine.disk.rename(FILE, FILE + ".1")
    await make("c")
    await world.until(lambda: world.machine.disk.exists(FILE))
    assert [each["name"] for each in await events(world, 1)] == ["c"]
    world.kill(Crash.KILL)


@simulated(headrace_audit_file=FILE)
async def test_a_full_disk_costs_events_and_nothing_else(
    world: NodeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    faults = world.machine.disk.faults
    faults.concerns = lambda path: path == FILE
    faults.write_error_rate = 1.0
    client = await world.connect("tool")
    reply = await client.ask(CreateTopicsRequest([CreatableTopic("a", 1, 1)], timeout_ms=30_000), 7)
    assert reply.topics[0].error_code == 0
    trail = world.node.parts.audit
    assert trail is not None
    await world.until(lambda: trail.lost == 1)
    assert "the audit trail cannot be written" in caplog.text
    faults.write_error_rate = 0.0
    await client.ask(CreateTopicsRequest([CreatableTopic("b", 1, 1)], timeout_ms=30_000), 7)
    (told,) = await events(world, 1)
    assert (told["name"], told["missing_before"]) == ("b", 1)


def test_a_login_that_fails_is_told_without_its_password() -> None:
    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        reply = await log_in(client, "PLAIN", plain("alice", "a wrong password"))
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        (told,) = await events(world, 1)
        assert short([told]) == [
            ("SaslAuthenticate", "AUTHENTICATE", "LISTENER", "SASL_PLAINTEXT", False, None)
        ]
        assert b"a wrong password" not in world.machine.disk.read_file(FILE)
        await log_in(await connect_sasl(world), "PLAIN", plain())
        await world.pass_time(1000)
        assert len(await events(world, 1)) == 1

    run_with_sasl(script, {"headrace.audit.file": FILE})


def test_a_bare_token_that_fails_is_told_too() -> None:
    """After SaslHandshake v0 there are no requests, and none that could fail."""

    async def script(world: NodeWorld) -> None:
        client = await connect_sasl(world)
        await client.ask(SaslHandshakeRequest("PLAIN"), 0)
        token = b"\0alice\0a wrong password"
        client.connection._connection.send((struct.pack(">i", len(token)) + token,))
        (told,) = await events(world, 1)
        assert short([told]) == [
            (
                *("SaslAuthenticate", "AUTHENTICATE", "LISTENER", "SASL_PLAINTEXT", False),
                "a login by PLAIN failed",
            )
        ]
        assert b"a wrong password" not in world.machine.disk.read_file(FILE)

    run_with_sasl(script, {"headrace.audit.file": FILE})


def test_a_handshake_that_fails_is_told_and_a_check_of_health_is_not(tmp_path: Path) -> None:
    authority = Authority()
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign("node", LOCAL).write(tmp_path / "node.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write(tmp_path / "ca.pem")),
        "headrace.audit.file": str(tmp_path / "audit.jsonl"),
    }
    trail = tmp_path / "audit.jsonl"
    with Cluster(settings=settings) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        socket.create_connection((host, int(port)), timeout=30).close()
        with socket.create_connection((host, int(port)), timeout=30) as plain_one:
            plain_one.sendall(b"\0\0\0\x10 no TLS at all")
            with contextlib.suppress(ConnectionError):  # a reset is an end as well
                while plain_one.recv(100):
                    pass
        eventually(trail.read_text, "the event")
    (told,) = map(json.loads, trail.read_text().splitlines())
    assert short([told]) == [
        (*("TlsHandshake", "AUTHENTICATE", "LISTENER", "SSL", False), told["error"]),
    ]
    assert told["error"].startswith("TLS: the other side does not speak it")
    assert (told["principal"], told["host"]) == ("User:ANONYMOUS", "127.0.0.1")


@simulated(headrace_audit_topic="trail", headrace_audit_reads="")
async def test_a_topic_may_take_the_place_of_the_file(world: NodeWorld) -> None:
    client = await world.connect("tool")
    for name in ("a", "b"):
        await client.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)], timeout_ms=30_000), 7)
    await world.until(lambda: "trail" in world.node.parts.image.topics_by_name, "the topic")
    topic_id = world.node.parts.image.topics_by_name["trail"].id
    found: list[dict[str, Any]] = []
    while len(found) < 2:
        (topic,) = (await client.ask(fetch(topic_id), 13)).responses
        data = bytes(topic.partitions[0].records or b"")
        found = [
            json.loads(each.value or b"") for at, header in batches(data) for each in read_records(data, at)
        ]
    assert [(each["operation"], each["resource"], each["name"]) for each in found] == [
        ("CREATE", "TOPIC", "a"),
        ("CREATE", "TOPIC", "b"),
    ]


@simulated(headrace_audit_topic="trail")
async def test_a_topic_that_takes_nothing_holds_nobody_up_and_is_told_of(
    world: NodeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await world.create_topic("trail", configs={"max.message.bytes": "10"})
    client = await world.connect("tool")
    reply = await client.ask(CreateTopicsRequest([CreatableTopic("a", 1, 1)], timeout_ms=30_000), 7)
    assert reply.topics[0].error_code == 0
    trail = world.node.parts.audit
    assert trail is not None
    await world.until(lambda: trail.lost == 1, "the loss")
    assert "the audit trail cannot be written to topic trail" in caplog.text


def test_a_trail_has_one_place() -> None:
    async def script(world: NodeWorld) -> None:
        with pytest.raises(
            SettingError, match=r"a trail has one place: take out this, or headrace\.audit\.file"
        ):
            await world.start()

    with NodeWorld({"headrace.audit.topic": "trail", "headrace.audit.file": FILE}) as world:
        world.run(script(world))


@simulated()
async def test_without_a_file_nothing_is_wrapped(world: NodeWorld) -> None:
    assert world.node.parts.audit is None


def test_every_change_that_is_served_has_a_row() -> None:
    """A new request kind must be put on one side or the other."""
    no_changes = {
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT),
        *(ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT),
        *(ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS),
        *(ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN),
        *(ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.WRITE_TXN_MARKERS, ApiKey.TXN_OFFSET_COMMIT),
        *(ApiKey.SASL_AUTHENTICATE, ApiKey.CONSUMER_GROUP_HEARTBEAT),
        *(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY),
        *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE),
        *(ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE),
        # Between nodes: state of members' reading, not the cluster's.
        *(ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE, ApiKey.WRITE_SHARE_GROUP_STATE),
        *(
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            ApiKey.SHARE_GROUP_DESCRIBE,
        ),
    }
    reading = ("DESCRIBE", "LIST", "CONSUMER_GROUP_DESCRIBE")
    served = {row.key for row in BROKER}
    left = {key for key in served - set(CHANGES) - no_changes if not key.name.startswith(reading)}
    assert left == set()
