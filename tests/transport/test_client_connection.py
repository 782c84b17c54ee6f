"""Asking a broker: replies as futures, in order, in time, or an error."""

import asyncio
import struct
import tracemalloc

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.transport.client_connection import CLIENT_LIMITS, connect
from headrace.transport.limits import MIB
from headrace.wire.apis import API
from headrace.wire.codec import encode_chunks
from headrace.wire.framing import read_request_header, response_frame
from headrace.wire.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.transport.harness import KINDS, Place

HEARTBEAT = API[12]


def answer(connection, data):
    """Answer a heartbeat with its generation as the throttle time."""
    header = read_request_header(data)
    (group_bytes,) = struct.unpack_from(">h", data, header.body_at)
    (generation,) = struct.unpack_from(">i", data, header.body_at + 2 + group_bytes)
    response = HeartbeatResponse(throttle_time_ms=generation)
    connection.send(response_frame(HEARTBEAT, 1, header.correlation_id, encode_chunks(response, 1)))


def open_to(place, listener, **options):
    return connect(
        place.loop,
        place.network,
        "127.0.0.1",
        listener.address[1],
        memory=place.memory,
        client_id="me",
        **options,
    )


def test_many_questions_are_answered_each_with_its_own_reply(place):
    async def main():
        connection = await open_to(place, place.listen(answer))
        asked = [
            connection.ask(HeartbeatRequest("group", number, "member"), 1, HeartbeatResponse)
            for number in range(300)
        ]
        assert connection.in_flight == 300
        assert [(await one).throttle_time_ms for one in asked] == list(range(300))
        assert connection.in_flight == 0

    place.run(main())


def test_the_client_id_travels(place):
    async def main():
        seen = []

        def on_frame(connection, data):
            seen.append(read_request_header(data).client_id)
            answer(connection, data)

        connection = await open_to(place, place.listen(on_frame))
        await connection.ask(HeartbeatRequest(), 1, HeartbeatResponse)
        assert seen == ["me"]

    place.run(main())


def test_a_reply_can_be_read_in_place(place):
    async def main():
        connection = await open_to(place, place.listen(answer))
        frame = await connection.ask(HeartbeatRequest("g", 9, "m"), 1, HeartbeatResponse, read=bytes)
        assert frame == struct.pack(">iih", 1, 9, 0)

    place.run(main())


def test_nobody_there(place):
    async def main():
        listener = place.listen(answer)
        port = listener.address[1]
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await connect(place.loop, place.network, "127.0.0.1", port, memory=place.memory)

    place.run(main())


def test_the_end_of_a_connection_fails_what_is_asked(place):
    async def main():
        reasons = []
        listener = place.listen(lambda connection, data: connection.abort("enough"))
        connection = await open_to(place, listener, on_close=reasons.append)
        asked = [connection.ask(HeartbeatRequest(), 1, HeartbeatResponse) for _ in range(3)]
        for one in asked:
            with pytest.raises(ConnectionError):
                await one
        assert not connection.is_open
        assert len(reasons) == 1
        with pytest.raises(ConnectionError):
            await connection.ask(HeartbeatRequest(), 1, HeartbeatResponse)

    place.run(main())


def test_a_reply_to_another_question_breaks_the_connection(place):
    async def main():
        def on_frame(connection, data):
            connection.send((struct.pack(">iiih", 10, 77, 0, 0),))

        connection = await open_to(place, place.listen(on_frame))
        with pytest.raises(ConnectionError, match="77"):
            await connection.ask(HeartbeatRequest(), 1, HeartbeatResponse)

    place.run(main())


@pytest.mark.parametrize("size", [-1, 2**31 - 1, CLIENT_LIMITS.frame_bytes_max + 1])
def test_a_reply_of_a_size_that_none_has_breaks_the_connection_at_once(place, size):
    """CVE-2026-10142 of another client: nothing is allocated because a server says a number."""

    async def main():
        connection = await open_to(place, place.listen(lambda c, data: c.send((struct.pack(">i", size),))))
        tracemalloc.start()
        try:
            with pytest.raises(ConnectionError, match=f"a frame of {size} bytes"):
                await connection.ask(HeartbeatRequest(), 1, HeartbeatResponse)
            assert tracemalloc.get_traced_memory()[1] < 64 * MIB
        finally:
            tracemalloc.stop()

    place.run(main())


def test_a_reply_that_does_not_parse_is_told_and_breaks_the_connection(place):
    async def main():
        connection = await open_to(
            place, place.listen(lambda c, data: c.send((struct.pack(">iih", 6, 1, 0),)))
        )
        with pytest.raises(InvalidBytesError):
            await connection.ask(HeartbeatRequest(), 1, HeartbeatResponse)
        await place.until(lambda: not connection.is_open)

    place.run(main())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "virtual" in kind])
def test_the_most_impatient_question_ends_a_silent_connection(kind):
    place = Place(kind)

    async def main():
        connection = await open_to(place, place.listen(lambda connection, data: connection.begin_reply()))
        start = place.loop.time()
        patient = connection.ask(HeartbeatRequest(), 1, HeartbeatResponse, timeout_ms=50_000)
        impatient = connection.ask(HeartbeatRequest(), 1, HeartbeatResponse, timeout_ms=5_000)
        with pytest.raises(ConnectionError, match="in time"):
            await impatient
        with pytest.raises(ConnectionError, match="in time"):
            await patient
        assert place.loop.time() - start == pytest.approx(5, abs=0.1)

    place.run(main())
    place.close()


def test_answered_questions_leave_no_deadline_behind():
    place = Place("virtual")

    async def main():
        connection = await open_to(place, place.listen(answer))
        for _ in range(5):
            await connection.ask(HeartbeatRequest(), 1, HeartbeatResponse, timeout_ms=1_000)
            await asyncio.sleep(0.7)
        await asyncio.sleep(20)
        assert connection.is_open

    place.run(main())
    place.close()


def test_a_silent_network_is_given_up_in_time():
    place = Place("virtual")

    async def main():
        world = place.network.network
        listening = world.attach("away", place.loop).listen("", 0, backlog=5)
        world.block("here", "away")
        start = place.loop.time()
        with pytest.raises(TimeoutError):
            await connect(
                place.loop, place.network, "away", listening.address[1], memory=place.memory, timeout_ms=3_000
            )
        assert place.loop.time() - start == pytest.approx(3, abs=0.1)

    place.run(main())
    place.close()


def test_a_question_that_was_given_up_does_not_confuse_the_next(place):
    async def main():
        connection = await open_to(place, place.listen(answer))
        given_up = connection.ask(HeartbeatRequest("g", 1, "m"), 1, HeartbeatResponse)
        given_up.cancel()
        response = await connection.ask(HeartbeatRequest("g", 2, "m"), 1, HeartbeatResponse)
        assert response.throttle_time_ms == 2

    place.run(main())


def test_a_request_without_reply_leaves_the_order_alone(place):
    async def main():
        def on_frame(connection, data):
            if b"hush" not in bytes(data):
                answer(connection, data)

        connection = await open_to(place, place.listen(on_frame))
        connection.tell(HeartbeatRequest("hush", 1, "m"), 1)
        response = await connection.ask(HeartbeatRequest("g", 2, "m"), 1, HeartbeatResponse)
        assert response.throttle_time_ms == 2

    place.run(main())
