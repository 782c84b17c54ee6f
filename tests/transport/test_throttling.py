"""A reply that tells a throttle time: nothing is sent until it is over (KIP-219)."""

import asyncio
import logging

import pytest

from headrace.transport.client_connection import connect
from headrace.transport.throttling import CLIENT_THROTTLES_SINCE, client_throttles
from headrace.wire.apis import API, ApiKey
from headrace.wire.codec import decode, encode_chunks
from headrace.wire.framing import read_request_header, response_frame
from headrace.wire.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.transport.harness import Place, own_records

HEARTBEAT = API[ApiKey.HEARTBEAT]
WAITS, WAITED = 2, 1  # versions whose throttle time is to come, and was waited for by the broker


class Broker:
    """Answers a heartbeat with its generation as the throttle time, and notes when each came."""

    def __init__(self, place: Place) -> None:
        self.came: list[tuple[str, float]] = []
        self._place = place

    def on_frame(self, connection, data):
        header = read_request_header(data)
        request = decode(HeartbeatRequest, header.api_version, bytes(data), header.body_at)
        self.came.append((request.group_id, self._place.loop.time()))
        body = encode_chunks(HeartbeatResponse(throttle_time_ms=request.generation_id), header.api_version)
        connection.send(response_frame(HEARTBEAT, header.api_version, header.correlation_id, body))

    def gap(self) -> float:
        """Between the first two requests."""
        return self.came[1][1] - self.came[0][1]


@pytest.fixture
def virtual():
    place = Place("virtual")
    yield place
    place.close()


async def open_to(place, broker):
    address = place.listen(broker.on_frame).address
    return await connect(place.loop, place.network, "127.0.0.1", address[1], memory=place.memory)


def test_the_next_request_waits(virtual, caplog):
    broker = Broker(virtual)

    async def main():
        connection = await open_to(virtual, broker)
        await connection.ask(HeartbeatRequest("first", 5_000), WAITS, HeartbeatResponse)
        assert connection.throttle_ms == pytest.approx(5_000, abs=10)
        # Its time to be answered begins when it is sent.
        await connection.ask(HeartbeatRequest("second", 7), WAITS, HeartbeatResponse, timeout_ms=1_000)
        assert 5.0 <= broker.gap() < 5.5
        await connection.ask(HeartbeatRequest("third", 0), WAITS, HeartbeatResponse)
        assert connection.throttle_ms == 0

    with caplog.at_level(logging.WARNING):
        virtual.run(main())
    (told,) = [record.getMessage() for record in own_records(caplog)]
    assert "a quota of the broker throttles this client: nothing is sent to it for 5000 ms" in told


def test_what_is_under_way_is_answered_and_the_longest_time_counts(virtual):
    broker = Broker(virtual)

    async def main():
        connection = await open_to(virtual, broker)
        together = [
            connection.ask(HeartbeatRequest(f"g{wait_ms}", wait_ms), WAITS, HeartbeatResponse)
            for wait_ms in (1_000, 9_000, 2_000)
        ]
        await asyncio.gather(*together)
        await connection.ask(HeartbeatRequest("after"), WAITS, HeartbeatResponse)
        assert [group for group, _ in broker.came] == ["g1000", "g9000", "g2000", "after"]
        assert broker.came[3][1] - broker.came[1][1] >= 9.0

    virtual.run(main())


def test_a_broker_that_has_waited_itself_is_not_waited_for_again(virtual):
    broker = Broker(virtual)

    async def main():
        connection = await open_to(virtual, broker)
        await connection.ask(HeartbeatRequest("first", 60_000), WAITED, HeartbeatResponse)
        assert connection.throttle_ms == 0
        await connection.ask(HeartbeatRequest("second"), WAITED, HeartbeatResponse)
        assert broker.gap() < 1

    virtual.run(main())


def test_a_login_that_is_due_goes_before_and_does_not_end_the_wait(virtual):
    broker = Broker(virtual)

    async def main():
        connection = await open_to(virtual, broker)
        await connection.ask(HeartbeatRequest("first", 5_000), WAITS, HeartbeatResponse)
        waiting = connection.ask(HeartbeatRequest("waits"), WAITS, HeartbeatResponse)
        connection.hold_requests()
        await connection.ask_now(HeartbeatRequest("login"), WAITS, HeartbeatResponse)
        connection.release_requests()
        await waiting
        assert [group for group, _ in broker.came] == ["first", "login", "waits"]
        assert broker.came[2][1] - broker.came[0][1] >= 5.0

    virtual.run(main())


def test_the_end_of_the_connection_ends_the_wait(virtual):
    broker = Broker(virtual)

    async def main():
        connection = await open_to(virtual, broker)
        await connection.ask(HeartbeatRequest("first", 5_000), WAITS, HeartbeatResponse)
        waiting = connection.ask(HeartbeatRequest("waits"), WAITS, HeartbeatResponse)
        connection.close()
        with pytest.raises(ConnectionError):
            await waiting
        assert len(broker.came) == 1

    virtual.run(main())


def test_versions_are_those_of_the_requests_there_are():
    for key, since in CLIENT_THROTTLES_SINCE.items():
        assert since <= API[key].advertised_max, key.name
        assert client_throttles(key, since)
        assert not client_throttles(key, since - 1)
    assert client_throttles(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)
