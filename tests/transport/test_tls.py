"""TLS between a listener and a client: on the kernel's sockets, and on simulated ones."""

import asyncio
import contextlib
import logging
import ssl
import struct
import threading

import pytest

from headrace.base.chunks import FileSlice
from headrace.log.system_disk import SystemDisk
from headrace.telemetry.limited_log import LimitedLog
from headrace.transport import listener as transport_listener
from headrace.transport import secure_connection
from headrace.transport.channel_builder import PLAINTEXT
from headrace.transport.client_connection import connect
from headrace.transport.connection import Connection
from headrace.transport.idle import IdleReaper
from headrace.transport.limits import MIB, ConnectionLimits
from headrace.transport.listener import HANDSHAKE_PATIENCE_S
from headrace.transport.secure_connection import SecureConnection
from headrace.transport.serving_turns import SLICE_NS, ServingTurns
from headrace.transport.tls import TlsError, TlsSocket, handshake
from tests.security.certificates import LOCAL, Authority
from tests.transport.harness import KINDS, REAL_KINDS, Place, frame

AUTHORITY = Authority()
SHUTDOWN_S = 3600.0  # how long asyncio waits for the other side's goodbye: longer than a test may take
LIMITS = ConnectionLimits(frame_bytes_max=64 * MIB, unsent_bytes_max=128 * MIB)


def server_context(tmp_path, credentials=None, *, version=ssl.TLSVersion.TLSv1_3):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    credentials = credentials or AUTHORITY.sign("server", LOCAL)
    context.load_cert_chain(credentials.write(tmp_path / "server.pem"))
    context.maximum_version = version
    return context


def client_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=AUTHORITY.pem)
    return context


class Tls:
    """A channel builder without settings."""

    def __init__(self, server=None, client=None):
        self.server, self.client = server, client

    def server_socket(self, socket):
        return TlsSocket(socket, self.server, server_side=True)

    def client_socket(self, socket, host):
        return TlsSocket(socket, self.client, server_side=False, server_name=host)

    async def authenticate(self, connection, host):
        return None

    def principal_of(self, socket):
        return "User:somebody"


@pytest.fixture(params=KINDS)
def place(request):
    place = Place(request.param)
    yield place
    place.close()


@pytest.fixture(params=REAL_KINDS)
def real_place(request):
    place = Place(request.param)
    yield place
    place.close()


class Framed:
    """A client that sends and collects frames."""

    def __init__(self, place, socket):
        self.frames = []
        self.place = place
        self.reason = None
        self.connection = SecureConnection(
            place.loop,
            socket,
            memory=place.memory,
            limits=LIMITS,
            on_frame=lambda connection, frame: self.frames.append(bytes(frame)),
            on_close=self.closed,
            idle=IdleReaper(place.loop, 0),
            limited_log=LimitedLog(place.loop.time, logging.getLogger("test"), logging.INFO),
        )
        self.connection.start()

    def closed(self, connection, reason):
        self.reason = reason

    async def wait(self, count):
        await self.place.until(lambda: len(self.frames) >= count or self.connection.closed)
        assert len(self.frames) >= count, self.reason
        return self.frames[:count]


async def framed_client(place, listener, context=None, name="localhost"):
    socket = place.network.connect("127.0.0.1", listener.address[1])
    writable = place.loop.create_future()
    place.loop.add_writer(socket.fileno(), lambda: writable.done() or writable.set_result(None))
    await writable
    place.loop.remove_writer(socket.fileno())
    tls = TlsSocket(socket, context or client_context(), server_side=False, server_name=name)
    try:
        await handshake(place.loop, tls, 60_000)
    except BaseException:
        tls.close()
        raise
    return Framed(place, tls)


def echo(connection, frame):
    connection.send([struct.pack(">i", len(frame)), bytes(frame)])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_frames_of_all_sizes_come_back_as_they_were(place, tmp_path, version):
    listener = place.listen(
        echo, limits=LIMITS, channel_builder=Tls(server_context(tmp_path, version=version))
    )
    scale = 1 if not place.is_virtual else 20
    bodies = [
        bytes([size % 251]) * size
        for size in (1, 100, 16_384, 70_000, 1_000_000 // scale, 3, 200_000 // scale)
    ]

    async def run():
        client = await framed_client(place, listener)
        for body in bodies:
            client.connection.send([frame(body)])
        assert await client.wait(len(bodies)) == bodies
        client.connection.abort()

    place.run(run())


def test_many_small_frames_at_once_are_all_answered(place, tmp_path):
    """More than one read takes: what lies decrypted in the socket is served though the kernel has no more."""
    listener = place.listen(echo, limits=LIMITS, channel_builder=Tls(server_context(tmp_path)))
    count = 20_000 if not place.is_virtual else 500

    async def run():
        client = await framed_client(place, listener)
        client.connection.send([frame(b"%06d" % at) for at in range(count)])
        assert await client.wait(count) == [b"%06d" % at for at in range(count)]
        client.connection.abort()

    place.run(run())


def test_files_are_sent_in_pieces(place, tmp_path):
    path = tmp_path / "segment"
    body = bytes(range(256)) * (8_000 if not place.is_virtual else 300)
    path.write_bytes(body)
    file = SystemDisk().open(str(path), writable=False)

    def on_frame(connection, asked):
        connection.send([struct.pack(">i", len(body)), FileSlice(file, 0, len(body))])

    listener = place.listen(on_frame, limits=LIMITS, channel_builder=Tls(server_context(tmp_path)))

    async def run():
        client = await framed_client(place, listener)
        client.connection.send([frame(b"a"), frame(b"b")])
        assert await client.wait(2) == [body, body]
        client.connection.abort()

    place.run(run())
    file.close()


def test_who_says_goodbye_is_answered_at_once(real_place, tmp_path):
    """Some wait for that answer, for half a minute, before they close the connection beneath."""
    listener = real_place.listen(echo, channel_builder=Tls(server_context(tmp_path)))

    async def run():
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            listener.address[1],
            ssl=client_context(),
            server_hostname="localhost",
            ssl_shutdown_timeout=SHUTDOWN_S,
        )
        writer.write(frame(b"x"))
        assert await reader.readexactly(5) == frame(b"x")
        writer.close()
        await writer.wait_closed()

    real_place.run(run())


def test_on_open_comes_after_the_handshake(place, tmp_path):
    seen = []
    listener = place.listen(
        echo,
        channel_builder=Tls(server_context(tmp_path)),
        on_open=lambda connection: seen.append(connection.socket.handshake_done),
    )

    async def run():
        client = await framed_client(place, listener)
        client.connection.send([frame(b"x")])
        await client.wait(1)
        client.connection.abort()

    place.run(run())
    assert seen == [True]


def test_a_client_says_why_it_does_not_trust_a_server(real_place, tmp_path):
    stranger = Authority("stranger").sign("server", LOCAL)
    listener = real_place.listen(echo, channel_builder=Tls(server_context(tmp_path, stranger)))

    async def run():
        with pytest.raises(TlsError, match="certificate is not accepted: self-signed"):
            await framed_client(real_place, listener)

    real_place.run(run())


def test_another_host_name_is_refused(real_place, tmp_path):
    listener = real_place.listen(echo, channel_builder=Tls(server_context(tmp_path)))

    async def run():
        with pytest.raises(TlsError, match="Hostname mismatch"):
            await framed_client(real_place, listener, name="elsewhere.example")

    real_place.run(run())


def test_who_does_not_speak_tls_is_closed_with_a_line(real_place, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    listener = real_place.listen(echo, channel_builder=Tls(server_context(tmp_path)))

    async def run():
        peer = await real_place.peer(listener)
        peer.socket.send([frame(b"\x00\x12\x00\x03")])
        await real_place.until(lambda: not listener.connections and "does not speak it" in caplog.text)
        peer.close()

    real_place.run(run())


def test_who_speaks_tls_to_a_plain_listener_is_closed_with_a_line(real_place, caplog):
    caplog.set_level(logging.INFO)
    listener = real_place.listen(echo)

    async def run():
        with pytest.raises(OSError, match=r"TLS|hung up|reset"):
            await framed_client(real_place, listener)
        assert "it speaks TLS, and this listener does not" in caplog.text

    real_place.run(run())


def test_a_handshake_that_does_not_go_on_is_ended(real_place, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(secure_connection, "HANDSHAKE_S", 0.2)
    caplog.set_level(logging.INFO)
    listener = real_place.listen(echo, channel_builder=Tls(server_context(tmp_path)))

    async def run():
        peer = await real_place.peer(listener)
        peer.socket.send([b"\x16\x03\x01"])
        await real_place.until(lambda: bool(listener.connections))
        await real_place.until(lambda: not listener.connections)
        peer.close()

    real_place.run(run())
    assert "no TLS handshake within" in caplog.text


def test_half_done_handshakes_do_not_hold_up_others(real_place, tmp_path):
    """Each turn of the loop gives newcomers a slice: somebody who is known is answered between any two."""
    listener = real_place.listen(echo, channel_builder=Tls(server_context(tmp_path)))
    hello = client_hello()

    async def run():
        client = await framed_client(real_place, listener)
        peers = [await real_place.peer(listener) for _ in range(100)]
        for peer in peers:
            peer.socket.send([hello])
        waits = []
        for at in range(50):
            began = real_place.loop.time()
            client.connection.send([frame(b"ping")])
            await client.wait(at + 1)
            waits.append(real_place.loop.time() - began)
        in_handshake = [each for each in listener.connections if each._is_late is not None]
        assert len(in_handshake) == 100
        for peer in peers:
            peer.close()
        client.connection.abort()

    real_place.run(run())


@pytest.fixture
def virtual_place():
    place = Place("virtual")
    yield place
    place.close()


class SlowHandshakes(ServingTurns):
    """Turns in which each step of a handshake takes a slice of two milliseconds, and longer."""

    def __init__(self, loop):
        self.read = 0
        super().__init__(loop, self.look)

    def look(self):
        self.read += SLICE_NS
        return self.read


def test_500_half_done_handshakes_hold_nobody_up(virtual_place, tmp_path):
    """Who is known is answered, and who comes gets through, in the turns that they would need alone."""
    place = virtual_place
    listener = place.listen(
        echo, channel_builder=Tls(server_context(tmp_path)), serving=SlowHandshakes(place.loop)
    )
    hello = client_hello()

    async def run():
        known = await framed_client(place, listener)
        peers = [await place.peer(listener) for _ in range(500)]
        for peer in peers:
            await peer.write(hello[: len(hello) // 2])
        await place.until(lambda: len(listener.connections) == 501)
        began = place.loop.time()
        known.connection.send([frame(b"ping")])
        await known.wait(1)
        newcomer = await framed_client(place, listener)
        newcomer.connection.send([frame(b"ping")])
        await newcomer.wait(1)
        assert place.loop.time() - began < 0.1
        assert len(listener.connections) == 502
        for peer in peers:
            peer.close()
        await place.until(lambda: len(listener.connections) == 2)

    place.run(run())


def test_the_slowest_of_too_many_handshakes_are_closed(virtual_place, tmp_path, caplog, monkeypatch):
    place, most = virtual_place, 50
    monkeypatch.setattr(transport_listener, "HANDSHAKES_MAX", most)
    listener = place.listen(echo, channel_builder=Tls(server_context(tmp_path)))

    async def run():
        known = await framed_client(place, listener)
        silent = [await place.peer(listener) for _ in range(most)]
        await place.until(lambda: len(listener.connections) == most + 1)
        began = place.loop.time()
        newcomer = await framed_client(place, listener)
        assert place.loop.time() - began < HANDSHAKE_PATIENCE_S + 0.5
        assert await silent[0].is_closed()
        assert not any(each.ended for each in silent[-10:])
        more = [await place.peer(listener) for _ in range(5 * most)]
        for client in (known, newcomer, await framed_client(place, listener)):
            client.connection.send([frame(b"ping")])
            await client.wait(1)
        assert len(listener.connections) <= most + 3
        for peer in (*silent, *more):
            peer.close()
        await place.until(lambda: len(listener.connections) == 3)

    place.run(run())
    said = [record for record in caplog.records if "TLS handshakes under way" in record.message]
    assert len(said) == 1
    assert f"has {most} TLS handshakes" in said[0].message


def test_clients_that_answer_are_not_closed_however_many_come(virtual_place, tmp_path, monkeypatch):
    """All of a cluster's clients come back at once: some wait, and all get through."""
    place = virtual_place
    monkeypatch.setattr(transport_listener, "HANDSHAKES_MAX", 4)
    listener = place.listen(
        echo, channel_builder=Tls(server_context(tmp_path)), serving=SlowHandshakes(place.loop)
    )

    async def run():
        clients = await asyncio.gather(*(framed_client(place, listener) for _ in range(60)))
        for client in clients:
            client.connection.send([frame(b"ping")])
            await client.wait(1)
        assert len(listener.connections) == 60

    place.run(run())


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_connect_shakes_hands_and_plain_connections_stay_plain(real_place, tmp_path):
    builder = Tls(server_context(tmp_path), client_context())
    secure = real_place.listen(echo, channel_builder=builder)
    plain = real_place.listen(echo)

    async def run():
        port = secure.address[1]
        connection = await connect(
            real_place.loop,
            real_place.network,
            "127.0.0.1",
            port,
            memory=real_place.memory,
            channel_builder=builder,
            server_name="localhost",
        )
        assert isinstance(next(iter(secure.connections)), SecureConnection)
        connection.close()
        other = await connect(
            real_place.loop, real_place.network, "127.0.0.1", plain.address[1], memory=real_place.memory
        )
        await real_place.until(lambda: bool(plain.connections))
        assert type(next(iter(plain.connections))) is Connection
        other.close()
        assert PLAINTEXT.principal_of(None) == "User:ANONYMOUS"

    real_place.run(run())


class Coming:
    """A socket to which these bytes have come; `meanwhile` happens when the kernel has handed them over."""

    local = peer = ("127.0.0.1", 1)

    def __init__(self, data, meanwhile=lambda: None):
        self.data, self.meanwhile = data, meanwhile

    def recv_into(self, buffer):
        if not self.data:
            raise BlockingIOError
        count = len(self.data)
        buffer[:count], self.data = self.data, b""
        self.meanwhile()
        return count


def test_what_another_thread_receives_meanwhile_does_not_mix_in(tmp_path):
    """The interpreter may go on with another thread, and its loop, once the kernel has filled the memory."""
    context = server_context(tmp_path)

    def receive_garbage():
        with pytest.raises(TlsError):
            TlsSocket(Coming(b"GET / HTTP/1.1\r\n\r\n"), context, server_side=True).shake_hands()

    def meanwhile():
        thread = threading.Thread(target=receive_garbage)
        thread.start()
        thread.join()

    begun = struct.pack(">BHH", 0x16, 0x0301, 512)  # the header of a record whose rest is still to come
    assert not TlsSocket(Coming(begun, meanwhile), context, server_side=True).shake_hands()
