"""Whatever comes where a handshake of TLS is expected: it is closed, or waits, and others are served."""

import asyncio
import ssl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.transport.secure_connection import HANDSHAKE_S
from tests.server.node_world import Tracebacks
from tests.transport.harness import Place, echo, frame
from tests.transport.test_tls import Tls, client_hello, framed_client, server_context

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
RECORD = st.builds(
    lambda kind, minor, body: bytes([kind, 3, minor]) + len(body).to_bytes(2, "big") + body,
    st.sampled_from([20, 21, 22, 23, 24, 0, 255]),
    st.integers(0, 5),
    st.binary(max_size=60),
)


@st.composite
def hello(draw: st.DrawFn) -> bytes:
    """A client's first message, whole, cut, or with other bytes in it."""
    data = bytearray(client_hello())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(data[: draw(st.sampled_from([len(data), len(data) // 2, 6]))])


PIECES = st.lists(st.one_of(st.binary(min_size=1, max_size=40), RECORD, hello()), min_size=1, max_size=5)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(pieces=PIECES, leaves=st.booleans(), is_known=st.booleans())
def test_any_bytes_are_survived(tmp_path_factory, version, pieces, leaves, is_known):
    folder = tmp_path_factory.getbasetemp()
    place, tracebacks = Place("virtual"), Tracebacks()
    listener = place.listen(echo, channel_builder=Tls(server_context(folder, version=version)))

    async def run():
        if is_known:  # who has shaken hands may send anything, too
            known = (await framed_client(place, listener)).connection
            stranger, leave = known._tls._socket, known.abort
        else:
            stranger = (await place.peer(listener)).socket
            leave = stranger.close
        for piece in pieces:
            try:
                stranger.send([piece])
            except OSError:
                break
            await place.turn(3)
        if leaves:
            leave()
        client = await framed_client(place, listener)
        client.connection.send([frame(b"ping")])
        assert await client.wait(1) == [b"ping"]
        client.connection.abort()
        await asyncio.sleep(HANDSHAKE_S + 1)
        assert len(listener.connections) <= is_known, "nobody is in a handshake for ever"
        assert not listener._handshakes
        if not leaves:
            leave()

    try:
        with tracebacks.listening():
            place.run(run())
    finally:
        place.close()
    assert not tracebacks.seen
