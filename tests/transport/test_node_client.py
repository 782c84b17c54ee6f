"""A way to another node: versions settled first, requests in order, found again after it was lost."""

import asyncio
import random

import pytest

from headrace.base.clock import SystemClock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.transport.channel_builder import PLAINTEXT, PlaintextChannelBuilder
from headrace.transport.node_client import NodeClient
from headrace.wire.apis import API, ApiKey
from headrace.wire.codec import decode, encode_chunks
from headrace.wire.framing import read_request_header, response_frame
from headrace.wire.schemas.api_versions import ApiVersion, ApiVersionsResponse
from headrace.wire.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.schemas.vote import VoteRequest
from tests.transport.harness import REAL_KINDS, Place

HEARTBEAT = API[12]


class Node:
    """Answers heartbeats with their generation, in versions up to one of its own."""

    def __init__(self, place, *, heartbeat_max=4, silent=False):
        self.connections = []
        self.versions = []
        self._max = heartbeat_max
        self._silent = silent
        self._listener = place.listen(self._answer)
        self.address = ("127.0.0.1", self._listener.address[1])

    def stop(self):
        self._listener.close()
        for connection in self.connections:
            connection.abort("stopped")

    def _answer(self, connection, frame):
        header = read_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            self.connections.append(connection)
            response = ApiVersionsResponse(
                api_keys=[ApiVersion(ApiKey.API_VERSIONS, 0, 4), ApiVersion(12, 0, self._max)]
            )
        elif self._silent:
            return
        else:
            self.versions.append(header.api_version)
            request = decode(HeartbeatRequest, header.api_version, bytes(frame), header.body_at)
            response = HeartbeatResponse(throttle_time_ms=request.generation_id)
        body = encode_chunks(response, header.api_version)
        connection.send(response_frame(API[header.api_key], header.api_version, header.correlation_id, body))


class Way:
    """A peer whose address can change."""

    def __init__(self, place, address, channel_builder=PLAINTEXT):
        self.address = address
        self.lost = []
        self.peer = NodeClient(
            place.network,
            place.loop,
            SystemClock(),
            resolve=lambda: self.address,
            client_id="7",
            memory=place.memory,
            rng=random.Random(1),
            on_lost=self.lost.append,
            channel_builder=channel_builder,
        )

    def ask(self, number, timeout_ms=20_000):
        return self.peer.send(HeartbeatRequest("group", number, "member"), timeout_ms=timeout_ms)


def test_requests_wait_for_the_versions_and_are_answered_in_order(place):
    async def main():
        node = Node(place, heartbeat_max=2)
        way = Way(place, node.address)
        asked = [way.ask(number) for number in range(50)]
        assert not way.peer.is_connected
        assert way.peer.in_flight == 50
        assert [(await one).throttle_time_ms for one in asked] == list(range(50))
        assert way.peer.is_connected
        assert way.peer.in_flight == 0
        assert len(node.connections) == 1
        assert set(node.versions) == {2}
        assert way.peer.supports(12, 2)
        assert not way.peer.supports(12, 3)
        assert not way.peer.supports(52)
        way.peer.close()

    place.run(main())


def test_what_the_node_does_not_know_is_an_error_of_that_request_alone(place):
    async def main():
        way = Way(place, Node(place).address)
        with pytest.raises(ApiError, match="does not know Vote requests") as caught:
            await way.peer.send(VoteRequest(), timeout_ms=20_000)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert (await way.ask(3)).throttle_time_ms == 3
        way.peer.close()

    place.run(main())


def test_a_node_that_is_not_there_fails_what_waits_and_is_found_when_it_comes(place):
    async def main():
        node = Node(place)
        node.stop()
        way = Way(place, node.address)
        asked = [way.ask(1), way.ask(2)]
        for one in asked:
            with pytest.raises(ConnectionRefusedError, match="no connection to the node at 127"):
                await one
        way.address = Node(place).address
        assert (await way.ask(5)).throttle_time_ms == 5
        assert way.lost == []
        way.peer.close()

    place.run(main())


def test_a_node_nobody_can_place(place):
    async def main():
        with pytest.raises(ConnectionError, match="not known where"):
            await Way(place, None).ask(1)

    place.run(main())


def test_a_lost_connection_is_told_of_at_once_and_made_again(place):
    async def main():
        node = Node(place)
        way = Way(place, node.address)
        await way.ask(1)
        node.connections[0].abort("killed")
        await place.until(lambda: way.lost)
        assert (await way.ask(2)).throttle_time_ms == 2
        assert len(node.connections) == 2
        way.peer.close()
        assert len(way.lost) == 1

    place.run(main())


def test_a_node_that_moved_is_asked_where_it_is_now(place):
    async def main():
        first, second = Node(place), Node(place)
        way = Way(place, first.address)
        await way.ask(1)
        way.address = second.address
        assert (await way.ask(2)).throttle_time_ms == 2
        assert len(second.connections) == 1
        assert way.lost == []
        way.peer.close()

    place.run(main())


def test_silence_breaks_the_connection(place):
    async def main():
        way = Way(place, Node(place, silent=True).address)
        patient = way.ask(0)
        await place.until(lambda: way.peer.is_connected)  # or the time might be up before that
        with pytest.raises(ConnectionError, match="no reply in time"):
            await way.ask(1, timeout_ms=30)
        with pytest.raises(ConnectionError, match="no reply in time"):
            await patient
        assert way.lost == ["no reply in time"]
        way.peer.close()

    place.run(main())


def test_closing_fails_what_waits_and_all_that_comes(place):
    async def main():
        way = Way(place, Node(place, silent=True).address)
        held = way.ask(1)
        way.peer.close()
        for asked in (held, way.ask(2)):
            with pytest.raises(ConnectionError, match="closed"):
                await asked
        await asyncio.sleep(0)

    place.run(main())


class Refused(PlaintextChannelBuilder):
    async def authenticate(self, connection, host):
        raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the password is wrong")


def test_a_login_that_fails_is_no_answer_to_what_was_asked(place):
    """Whoever asked for a client must not tell the client that its own login failed."""

    async def main():
        way = Way(place, Node(place).address, channel_builder=Refused())
        with pytest.raises(ConnectionError, match="the password is wrong"):
            await way.ask(1)
        way.peer.close()

    place.run(main())


def read_in_slices(steps):
    """A reply that is read in slices, of which each looks at it; the views of each are told."""

    def read(frame, version):
        def slices():
            for _ in range(3):
                steps.append(bytes(frame[:4]))
                yield
            return bytes(frame)

        return slices()

    return read


def test_a_reply_that_takes_long_is_read_in_slices_and_the_next_waits_for_it(place):
    async def main():
        way, steps = Way(place, Node(place).address), []
        slow = way.peer.send(HeartbeatRequest("g", 1, "m"), timeout_ms=20_000, read=read_in_slices(steps))
        behind = way.ask(7)
        assert (await behind).throttle_time_ms == 7
        assert slow.done()
        assert steps == [(await slow)[:4]] * 3
        assert (await way.ask(8)).throttle_time_ms == 8
        way.peer.close()

    place.run(main())


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_connection_that_ends_amid_the_slices_of_a_reply(place, is_begun):
    async def main():
        way, told = Way(place, Node(place).address), []

        def read(frame, version):
            told.append("read")

            def slices():
                told.append("begun")
                try:
                    yield place.loop.create_future()
                finally:
                    told.append("closed")

            if not is_begun:
                place.loop.call_soon(way.peer.close)
            return slices()

        asked = way.peer.send(HeartbeatRequest("g", 1, "m"), timeout_ms=20_000, read=read)
        if is_begun:
            await place.until(lambda: "begun" in told)
            way.peer.close()
        with pytest.raises(ConnectionError):
            await asked
        assert told in (["read", "begun", "closed"], ["read"])
        assert not is_begun or "begun" in told

    place.run(main())


@pytest.mark.parametrize("kind", REAL_KINDS)
def test_names_are_looked_up_beside_the_loop(kind, monkeypatch):
    """A name server that does not answer must not keep others waiting."""
    place = Place(kind)

    async def main():
        node = Node(place)
        asked_for = []

        async def looked_up(host, port, **options):
            asked_for.append(host)
            return [(0, 0, 0, "", ("127.0.0.1", 0))]

        monkeypatch.setattr(place.loop, "getaddrinfo", looked_up, raising=False)
        way = Way(place, ("node.example", node.address[1]))
        assert (await way.ask(5)).throttle_time_ms == 5
        assert asked_for == ["node.example"]
        way.peer.close()

    place.run(main())
    place.close()
