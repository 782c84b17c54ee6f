"""The small HTTP server: what it answers, what it refuses, and that nobody can hold it up."""

import asyncio

import pytest

from headrace.transport import http_listener
from headrace.transport.http_listener import HttpListener, HttpReply
from tests.telemetry.scraping import answer_of, get

LONG = b"x" * 100_000


class Server:
    """A listener in a place, and what it was asked."""

    def __init__(self, place):
        self.place = place
        self.asked = []
        self.later = place.loop.create_future()
        self.listener = HttpListener(place.loop, place.network, self.respond)
        place.listeners.append(self.listener)
        self.address = self.listener.listen("127.0.0.1", 0)

    def respond(self, request):
        self.asked.append(request)
        if request.path == "/later":
            return self.later
        if request.path == "/fault":
            raise ValueError("a fault of ours")
        if request.path == "/long":
            return HttpReply(200, (LONG, LONG, LONG))
        return HttpReply.text(200, request.path)

    def get(self, path, headers=None):
        return get(self.place.loop, self.place.network, self.address, path, headers)

    async def peer(self):
        return await self.place.peer(self.listener)

    async def say(self, data):
        """Send bytes, and hear until the connection ends."""
        peer = await self.peer()
        await peer.write(data)
        await peer.is_closed()
        peer.close()
        return bytes(peer.received)


@pytest.fixture
def server(place):

    return Server(place)


def test_answers_a_get(place, server):
    answer = place.run(server.get("/some?thing=1", {"Accept": "text/plain"}))
    assert (answer.status, answer.body) == (200, "/some\n")
    assert server.asked[0].headers["accept"] == "text/plain"


def test_keeps_the_connection_for_the_next_request(place, server):
    async def script():
        peer = await server.peer()
        for path in ("/one", "/two"):
            peer.received.clear()
            await peer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
            while not peer.received.endswith(b"\n" + path.encode() + b"\n"):
                await peer.read_some()
                assert not peer.ended
        peer.close()

    place.run(script())


def test_answers_requests_that_came_together_one_after_the_other(place, server):
    request = b"GET /one HTTP/1.1\r\n\r\nGET /two HTTP/1.1\r\nConnection: close\r\n\r\n"
    received = place.run(server.say(request))
    assert received.index(b"/one") < received.index(b"/two")


def test_answers_later(place, server):
    async def script():
        asked = asyncio.ensure_future(server.get("/later"))
        await place.until(lambda: server.asked)
        server.later.set_result(HttpReply.text(503, "now"))
        return await asked

    answer = place.run(script())
    assert (answer.status, answer.body) == (503, "now\n")


def test_sends_what_is_long_whole(place, server):
    assert place.run(server.get("/long")).body.encode() == LONG * 3


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /" + b"x" * http_listener.HEAD_BYTES_MAX, 431),
        (b"GET /fault HTTP/1.1\r\n\r\n", 500),
    ],
)
def test_refuses_and_closes(place, server, request_bytes, status):
    assert answer_of(place.run(server.say(request_bytes))).status == status


def test_refuses_who_comes_beyond_the_limit(place, server, monkeypatch):
    monkeypatch.setattr(http_listener, "CONNECTIONS_MAX", 2)

    async def script():
        held = [await server.peer() for _ in range(2)]
        await place.until(lambda: len(server.listener._connections) == 2)
        late = await server.peer()
        assert await late.is_closed()
        for peer in (*held, late):
            peer.close()
        await place.until(lambda: not server.listener._connections)
        return await server.get("/again")

    assert place.run(script()).status == 200


@pytest.mark.parametrize("sent", [b"", b"GET / HT"])
def test_closes_who_does_not_ask_in_time(place, server, monkeypatch, sent):
    monkeypatch.setattr(http_listener, "HEAD_S", 0.05)
    assert place.run(server.say(sent)) == b""


def test_closes_who_does_not_read_in_time(place, server, monkeypatch):
    monkeypatch.setattr(http_listener, "REPLY_S", 0.05)

    async def script():
        peer = await server.peer()
        await peer.write(b"GET /later HTTP/1.1\r\n\r\n")
        assert await peer.is_closed()
        peer.close()

    place.run(script())


def test_ends_with_its_listener(place, server):
    async def script():
        peer = await server.peer()
        await place.until(lambda: server.listener._connections)
        server.listener.close()
        assert await peer.is_closed()
        peer.close()

    place.run(script())
