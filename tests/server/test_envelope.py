"""Envelope over the wire: a client's request, carried out as the client's."""

import asyncio
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.controller.drivers.active_controller import FORWARDER
from headrace.server.context import RequestContext
from headrace.server.handlers import envelope as envelope_handler
from headrace.testing.machine import Surroundings
from headrace.testing.node_cluster import PORT, NodeCluster
from headrace.testing.world import World
from headrace.wire.codec import encode, join_chunks
from headrace.wire.framing import read_response, request_frame
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest
from headrace.wire.schemas.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.wire.schemas.envelope import EnvelopeRequest
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.principal import DefaultPrincipalData
from tests.server.node_world import NodeWorld, open_client, simulated

CREATE_TOPICS = 19


def envelope(
    request: object, version: int, correlation_id: int = 5, client_id: str = "someone"
) -> EnvelopeRequest:
    frame = join_chunks(request_frame(request, version, correlation_id, client_id))
    principal = b"\0\0" + encode(DefaultPrincipalData("User", "alice"), 0)
    return EnvelopeRequest(frame[4:], principal, bytes([10, 0, 0, 7]))


@simulated()
async def test_a_forwarded_request_is_answered_inside(world: NodeWorld) -> None:
    client = await world.connect_controller()
    create = CreateTopicsRequest([CreatableTopic("orders", 2, 1)], 1_000)
    answered = await client.ask(envelope(create, 7), 0)
    assert answered.error_code == 0
    assert int.from_bytes(answered.response_data[:4], "big") == 5
    response = read_response(CreateTopicsResponse, 7, answered.response_data)
    assert (response.topics[0].name, response.topics[0].error_code) == ("orders", 0)
    again = await client.ask(envelope(create, 7), 0)
    response = read_response(CreateTopicsResponse, 7, again.response_data)
    assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    "broken",
    [
        EnvelopeRequest(b"", b"", bytes(4)),
        EnvelopeRequest(b"no request at all", b"", bytes(4)),
        EnvelopeRequest(bytes(3), b"", bytes(4)),
    ],
)
@simulated()
async def test_a_malformed_envelope_is_refused_and_no_fault_of_ours(
    world: NodeWorld, broken: EnvelopeRequest
) -> None:
    client = await world.connect_controller()
    for _ in range(3):
        answered = await client.ask(broken, 0)
        assert answered.error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION)
    assert world.node.parts.faults.count == 0


@pytest.mark.parametrize(("principal", "address"), [(b"\0\0garbage", bytes(4)), (b"", b"three")])
@simulated()
async def test_an_envelope_without_a_client_is_refused(
    world: NodeWorld, principal: bytes, address: bytes
) -> None:
    whole = envelope(CreateTopicsRequest([CreatableTopic("orders", 2, 1)], 1_000), 7)
    client = await world.connect_controller()
    answered = await client.ask(EnvelopeRequest(whole.request_data, principal, address), 0)
    assert answered.error_code == ErrorCode.INVALID_REQUEST
    assert world.node.parts.faults.count == 0


@simulated()
async def test_a_numbered_request_takes_effect_once(world: NodeWorld) -> None:
    """It may be late, and come after what it asked for was undone."""
    client, late = await world.connect_controller(), await world.connect_controller()
    create = CreateTopicsRequest([CreatableTopic("orders", 2, 1)], 1_000)
    first, again = [
        await asyncio.gather(
            *(each.ask(envelope(create, 7, 5, FORWARDER + "1"), 0) for each in (client, late))
        ),
        await late.ask(envelope(create, 7, 5, FORWARDER + "1"), 0),
    ]
    assert first[0].response_data == first[1].response_data == again.response_data
    assert read_response(CreateTopicsResponse, 7, again.response_data).topics[0].error_code == 0
    await client.ask(envelope(DeleteTopicsRequest([], ["orders"], 1_000), 5, 6, FORWARDER + "1"), 0)
    await late.ask(envelope(create, 7, 5, FORWARDER + "1"), 0)
    assert "orders" not in world.node.image.topics_by_name
    for name, number in (("1", 7), ("2", 5)):
        answered = await late.ask(envelope(create, 7, number, FORWARDER + name), 0)
        code = read_response(CreateTopicsResponse, 7, answered.response_data).topics[0].error_code
        assert code == (0 if name == "1" else ErrorCode.TOPIC_ALREADY_EXISTS), "another request"


@simulated()
async def test_what_a_controller_does_not_serve_is_not_forwarded(world: NodeWorld) -> None:
    client = await world.connect_controller()
    answered = await client.ask(envelope(HeartbeatRequest("g"), 4), 0)
    assert answered.error_code == ErrorCode.UNSUPPORTED_VERSION
    within = await client.ask(envelope(envelope(HeartbeatRequest("g"), 4), 0), 0)
    assert within.error_code == ErrorCode.UNSUPPORTED_VERSION


@simulated()
async def test_a_forwarded_request_that_is_answered_in_slices(world: NodeWorld) -> None:
    client = await world.connect_controller()
    resources = [DescribeConfigsResource(2, f"t{number}", None) for number in range(20)]
    answered = await client.ask(envelope(DescribeConfigsRequest(resources), 4), 0)
    assert answered.error_code == 0
    response = read_response(DescribeConfigsResponse, 4, answered.response_data)
    assert [each.resource_name for each in response.results] == [each.resource_name for each in resources]


def test_a_reply_that_cannot_be_encoded_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    @simulated()
    async def ask(world: NodeWorld) -> None:
        client = await world.connect_controller()
        monkeypatch.setattr(envelope_handler, "encode_chunks", lambda *response: 1 / 0)
        answered = await client.ask(envelope(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1_000), 7), 0)
        assert answered.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        (trace,) = world.tracebacks.seen
        assert "ZeroDivisionError" in str(trace)
        world.tracebacks.seen.clear()

    ask()


def test_a_broker_tells_the_controller_for_whom_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's principal and address travel with its request; a node's own requests are the node's."""
    asked: list[tuple[int, str, str]] = []

    class Noted(RequestContext):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            asked.append((self.api_key, self.peer.principal, self.peer.host))

    monkeypatch.setattr(envelope_handler, "RequestContext", Noted)

    async def script(cluster: NodeCluster) -> None:
        await cluster.start()
        active = cluster.controller_id()
        broker = next(each for each in cluster.ids if each != active)
        client = cluster.world.machine("client")

        async def ask(own: Surroundings) -> str:
            asking = await open_client(own.loop, own.network, f"node{broker}", PORT)
            create = CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000)
            assert (await asking.ask(create, 7)).topics[0].error_code == 0
            return own.network.own_name()

        host = await cluster.world.result(client, client.boot(ask))
        assert asked == [(CREATE_TOPICS, "User:ANONYMOUS", host)]

        async def ask_as_alice() -> None:
            controller = cluster.nodes[broker].parts.controller.on_behalf_of("User:alice", "2001:db8::7")
            await controller.ask(CreateTopicsRequest([CreatableTopic("u", 1, 1)], 10_000))

        await cluster.on_node(broker, ask_as_alice())
        assert asked[1:] == [(CREATE_TOPICS, "User:alice", "2001:db8::7")]

    cluster = NodeCluster(World(1))
    try:
        cluster.world.run(script(cluster))
    finally:
        cluster.world.close()
