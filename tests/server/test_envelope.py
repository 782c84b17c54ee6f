"""Envelope over the wire: a client's request, carried out as the client's."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.codec import encode, join_chunks
from headrace.wire.framing import read_response, request_frame
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.envelope import EnvelopeRequest
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.principal import DefaultPrincipalData
from tests.server.node_world import NodeWorld, simulated


def envelope(request: object, version: int, correlation_id: int = 5) -> EnvelopeRequest:
    frame = join_chunks(request_frame(request, version, correlation_id, "someone"))
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


@simulated()
async def test_what_a_controller_does_not_serve_is_not_forwarded(world: NodeWorld) -> None:
    client = await world.connect_controller()
    answered = await client.ask(envelope(HeartbeatRequest("g"), 4), 0)
    assert answered.error_code == ErrorCode.UNSUPPORTED_VERSION
    within = await client.ask(envelope(envelope(HeartbeatRequest("g"), 4), 0), 0)
    assert within.error_code == ErrorCode.UNSUPPORTED_VERSION
