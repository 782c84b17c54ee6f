"""From a frame to its reply, over real and simulated connections, with handlers made for the test."""

import asyncio
import logging
import struct
from types import SimpleNamespace

import pytest

from headrace.base.clock import SystemClock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.security.sasl.plain import PlainServer
from headrace.server.api_table import ApiTable, Row
from headrace.server.authority import OPEN
from headrace.server.authorizer import AllowAll
from headrace.server.context import ANONYMOUS, NO_REPLY
from headrace.server.dispatch import Dispatcher
from headrace.server.quotas.quota_managers import QuotaManagers
from headrace.server.request_log import RequestLog
from headrace.server.sasl_server_authenticator import SaslListener
from headrace.telemetry.fault_log import FaultLog
from headrace.transport.client_connection import connect
from headrace.wire.apis import ApiKey
from headrace.wire.framing import request_frame
from headrace.wire.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace.wire.schemas.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.transport.harness import KINDS, Place, frame, own_records

HANDLERS = {}


class FakeRow(Row):
    """A row whose handler is a function of the test."""

    def load(self):
        return HANDLERS[self.key.name.lower()]


@pytest.fixture(params=KINDS)
def place(request):
    place = Place(request.param)
    yield place
    place.close()


class Server:
    def __init__(self, place, new_exchange=None, **handlers):
        HANDLERS.update(handlers)
        rows = [
            Row(key, 0, last, authority=OPEN)
            for key, last in ((ApiKey.SASL_HANDSHAKE, 1), (ApiKey.API_VERSIONS, 4))
        ]
        versions = {"heartbeat": (0, 4), "metadata": (0, 13), "produce": (3, 13)}
        rows += [FakeRow(ApiKey[name.upper()], *versions[name], authority=OPEN) for name in handlers]
        self.place = place
        self.parts = SimpleNamespace(
            loop=place.loop,
            authorizer=AllowAll(),
            clock=SystemClock(),
            image=SimpleNamespace(offset=7, finalized_features=dict),
            faults=FaultLog(place.loop.time, logging.getLogger("headrace")),
            request_log=RequestLog(place.loop, slow_ms=1000),
            quotas=QuotaManagers(SystemClock(), place.loop),
            audit=None,
        )
        dispatcher = Dispatcher(self.parts, ApiTable(rows))
        self.listener = place.listen(
            dispatcher.on_frame, on_open=dispatcher.opener("PLAINTEXT", new_exchange)
        )

    async def client(self):
        place = self.place
        port = self.listener.address[1]
        return await connect(
            place.loop, place.network, "127.0.0.1", port, memory=place.memory, client_id="tester"
        )

    async def ask(self, message, version, response):
        return await (await self.client()).ask(message, version, response)


def test_a_handler_gets_the_request_and_who_asks(place):
    seen = []

    def heartbeat(context, request):
        seen.append((context, request))
        return HeartbeatResponse(error_code=27)

    async def main():
        server = Server(place, heartbeat=heartbeat)
        response = await server.ask(HeartbeatRequest("group", 5, "member"), 4, HeartbeatResponse)
        assert response.error_code == 27
        ((context, request),) = seen
        assert (request.group_id, request.generation_id) == ("group", 5)
        assert (context.api_key, context.api_version, context.client_id) == (12, 4, "tester")
        assert context.parts is server.parts
        assert context.peer.listener == "PLAINTEXT"
        assert context.peer.principal == ANONYMOUS
        assert context.peer.host

    place.run(main())


def test_replies_that_wait_keep_their_place(place):
    futures = []

    def heartbeat(context, request):
        if request.generation_id % 2:
            return HeartbeatResponse(throttle_time_ms=request.generation_id)
        futures.append((place.loop.create_future(), request.generation_id))
        return futures[-1][0]

    async def main():
        client = await Server(place, heartbeat=heartbeat).client()
        asked = [client.ask(HeartbeatRequest("g", n, "m"), 1, HeartbeatResponse) for n in range(10)]
        await place.until(lambda: len(futures) == 5)
        for future, number in reversed(futures):
            future.set_result(HeartbeatResponse(throttle_time_ms=number))
        assert [(await one).throttle_time_ms for one in asked] == list(range(10))

    place.run(main())


def test_a_future_that_is_done_is_answered_like_a_response(place):
    def heartbeat(context, request):
        future = place.loop.create_future()
        future.set_result(HeartbeatResponse(throttle_time_ms=3))
        return future

    async def main():
        response = await Server(place, heartbeat=heartbeat).ask(HeartbeatRequest(), 1, HeartbeatResponse)
        assert response.throttle_time_ms == 3

    place.run(main())


@pytest.mark.parametrize("late", [False, True])
def test_an_error_takes_the_form_of_its_api(place, late):
    def metadata(context, request):
        error = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
        if not late:
            raise error
        future = place.loop.create_future()
        place.loop.call_soon(future.set_exception, error)
        return future

    async def main():
        server = Server(place, metadata=metadata)
        wanted = MetadataRequest([MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")])
        response = await server.ask(wanted, 9, MetadataResponse)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", 29), ("b", 29)]

    place.run(main())


def crash(context, request):
    raise RuntimeError("our own fault")


def nonsense(context, request):
    return "nonsense"


def unwritable(context, request):
    return HeartbeatResponse(error_code="many")


@pytest.mark.parametrize(
    ("handler", "logged"),
    [(crash, "our own fault"), (nonsense, "nonsense"), (unwritable, "many")],
    ids=["crash", "nonsense", "unwritable"],
)
def test_a_fault_of_ours_is_logged_and_told_without_its_details(place, caplog, handler, logged):
    async def main():
        client = await Server(place, heartbeat=handler).client()
        response = await client.ask(HeartbeatRequest("g", 1, "m"), 4, HeartbeatResponse)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert client.is_open

    with caplog.at_level(logging.ERROR):
        place.run(main())
    assert logged in caplog.text


def test_a_fault_that_comes_again_and_again_is_said_once(place, caplog):
    async def main():
        client = await Server(place, heartbeat=crash).client()
        for _ in range(100):
            response = await client.ask(HeartbeatRequest("g", 1, "m"), 4, HeartbeatResponse)
            assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    with caplog.at_level(logging.ERROR):
        place.run(main())
    assert len(own_records(caplog)) == 1


def test_a_cancelled_future_is_told_as_something_to_ask_another_node_for(place, caplog):
    def heartbeat(context, request):
        future = place.loop.create_future()
        place.loop.call_soon(future.cancel)
        return future

    async def main():
        response = await Server(place, heartbeat=heartbeat).ask(HeartbeatRequest(), 4, HeartbeatResponse)
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT

    place.run(main())
    faults = [record for record in own_records(caplog) if record.levelno >= logging.WARNING]
    assert not faults, "a node that stops is no fault of ours"


def produce_request(acks):
    data = PartitionProduceData(0, b"a batch")
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData("t", partition_data=[data])])


@pytest.mark.parametrize("late", [False, True])
def test_no_reply_is_sent_where_none_is_wanted(place, late):
    def produce(context, request):
        if not late or request.acks:
            return ProduceResponse() if request.acks else NO_REPLY
        future = place.loop.create_future()
        place.loop.call_soon(future.set_result, NO_REPLY)
        return future

    async def main():
        client = await Server(place, produce=produce).client()
        client.tell(produce_request(0), 9)
        assert await client.ask(produce_request(1), 9, ProduceResponse) == ProduceResponse()

    place.run(main())


def test_a_failure_that_cannot_be_told_ends_the_connection(place):
    def produce(context, request):
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def main():
        client = await Server(place, produce=produce).client()
        client.tell(produce_request(0), 9)
        await place.until(lambda: not client.is_open)

    place.run(main())


def test_a_produce_that_waits_keeps_no_view_of_its_frame(place):
    """Connections of these tests check that no view outlives its handler; errors still name the partition."""
    futures, requests = [], []

    def produce(context, request):
        requests.append(request)
        futures.append(place.loop.create_future())
        return futures[-1]

    async def main():
        client = await Server(place, produce=produce).client()
        asked = client.ask(produce_request(-1), 9, ProduceResponse)
        await place.until(lambda: futures)
        assert requests[0].topic_data[0].partition_data[0].records is None
        futures[0].set_exception(ApiError(ErrorCode.KAFKA_STORAGE_ERROR))
        (topic,) = (await asked).responses
        assert (topic.name, topic.partition_responses[0].error_code) == ("t", ErrorCode.KAFKA_STORAGE_ERROR)

    place.run(main())


def test_a_reply_for_a_peer_that_left_goes_nowhere(place):
    futures = []

    def heartbeat(context, request):
        futures.append(place.loop.create_future())
        return futures[-1]

    async def main():
        server = Server(place, heartbeat=heartbeat)
        client = await server.client()
        asked = client.ask(HeartbeatRequest(), 4, HeartbeatResponse)
        await place.until(lambda: futures)
        client.close()
        with pytest.raises(ConnectionError):
            await asked
        await place.until(lambda: not server.listener.connections)
        futures[0].set_result(HeartbeatResponse())
        await place.turn(3)

    place.run(main())


HEADER = struct.Struct(">hhih")


@pytest.mark.parametrize(
    "body",
    [
        HEADER.pack(9999, 0, 7, -1),
        HEADER.pack(12, 99, 7, -1),
        HEADER.pack(12, -1, 7, -1),
        HEADER.pack(3, 4, 7, -1),
        HEADER.pack(12, 0, 7, -1) + b"\xff",
        HEADER.pack(12, 0, 7, 100) + b"short",
        b"\0",
    ],
    ids=["key", "version", "negative version", "not in the table", "body", "client id", "no header"],
)
def test_what_breaks_the_protocol_ends_its_connection(place, body, caplog):
    async def main():
        server = Server(place, heartbeat=lambda context, request: HeartbeatResponse())
        peer = await place.peer(server.listener)
        await peer.write(frame(body))
        assert await peer.read_frame() is None
        assert (await server.ask(HeartbeatRequest(), 4, HeartbeatResponse)).error_code == 0

    with caplog.at_level(logging.INFO):
        place.run(main())
    assert caplog.text.count("for a broken frame") == 1
    assert not any(record.exc_info for record in own_records(caplog))


@pytest.mark.parametrize("version", [5, 99, -1])
def test_api_versions_of_another_time_are_answered_in_the_oldest_form(place, version):
    async def main():
        peer = await place.peer(Server(place).listener)
        await peer.write(frame(HEADER.pack(18, version, 7, 5) + b"probe" + b"\0garbage"))
        assert await peer.read_frame() == struct.pack(">ihihhh", 7, 35, 1, 18, 0, 4)
        await peer.write(b"".join(request_frame(ApiVersionsRequest(), 0, 8, None)))
        reply = await peer.read_frame()
        assert struct.unpack_from(">ihi", reply) == (8, 0, 2)

    place.run(main())


FRAME_BYTES_MAX = 10_000


def sasl_listener(place):
    return SaslListener(
        "PLAINTEXT",
        {"PLAIN": lambda: PlainServer({})},
        loop=place.loop,
        now_ms=lambda: 0,
        reauth_ms={},
        failed_delay_ms=0,
        frame_bytes_max=FRAME_BYTES_MAX,
    )


def test_strangers_may_only_say_who_they_are(place):
    async def main():
        new_exchange = sasl_listener(place).new_exchange
        server = Server(place, new_exchange, heartbeat=lambda context, request: HeartbeatResponse())
        client = await server.client()
        assert (await client.ask(ApiVersionsRequest("a", "1"), 3, ApiVersionsResponse)).error_code == 0
        response = await client.ask(SaslHandshakeRequest("PLAIN"), 1, SaslHandshakeResponse)
        assert (response.error_code, response.mechanisms) == (0, ["PLAIN"])
        with pytest.raises(ConnectionError):
            await client.ask(HeartbeatRequest(), 4, HeartbeatResponse)
        peer = await place.peer(server.listener)
        await peer.write(struct.pack(">i", FRAME_BYTES_MAX + 1))
        assert await peer.read_frame() is None

    place.run(main())


def test_requests_of_one_connection_are_in_progress_together(place):
    async def main():
        futures = []

        def heartbeat(context, request):
            futures.append(place.loop.create_future())
            return futures[-1]

        client = await Server(place, heartbeat=heartbeat).client()
        asked = [client.ask(HeartbeatRequest(), 4, HeartbeatResponse) for _ in range(50)]
        await place.until(lambda: len(futures) == 50)
        for future in futures:
            future.set_result(HeartbeatResponse())
        assert len(await asyncio.gather(*asked)) == 50

    place.run(main())
