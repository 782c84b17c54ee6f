"""Whatever somebody sends in place of a login: it is answered, refused or cut off, and only who has shown a
password is served."""

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.codec import join_chunks
from headrace.wire.framing import request_frame
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.metadata import MetadataRequest
from headrace.wire.schemas.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest
from tests.server.node_world import NodeWorld
from tests.server.sasl_world import SASL_PORT, SASL_SETTINGS, connect_sasl, log_in, plain
from tests.transport.harness import Peer

MECHANISMS = st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "", "plain"])
TOKENS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"\0alice\0wrong",
            b"bob\0alice\0alice-secret",
            b"\0\0",
            b"n,,n=alice,r=abc",
            b"n,,n=alice,r=abc,tokenauth=true",
            b"y,a=bob,n=alice,r=abc",
            b"p=tls-unique,,n=alice,r=abc",
            b"c=biws,r=abc,p=AAAA",
            b"n,,n=" + b"x" * 5000 + b",r=a",
            b"n,,\x01auth=Bearer x.y.z\x01\x01",
            "n,,n=\u0130\ud7ff,r=abc".encode(),
        ]
    ),
)


def framed(request: Any, version: int) -> bytes:
    return join_chunks(request_frame(request, version, 7, "someone"))


def bare(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


STEPS = st.lists(
    st.one_of(
        st.builds(
            lambda name, version: framed(SaslHandshakeRequest(name), version), MECHANISMS, st.integers(0, 1)
        ),
        st.builds(
            lambda token, version: framed(SaslAuthenticateRequest(token), version), TOKENS, st.integers(0, 2)
        ),
        st.builds(lambda version: framed(ApiVersionsRequest(), version), st.integers(0, 2)),
        st.builds(bare, TOKENS),
        st.builds(lambda size: struct.pack(">i", size), st.sampled_from([-1, 0, 1, 1 << 20, (1 << 31) - 1])),
        st.just(framed(MetadataRequest(topics=None), 9)),
        st.binary(min_size=1, max_size=30),
    ),
    min_size=1,
    max_size=8,
)


async def play(world: NodeWorld, steps: list[bytes], *, at_once: bool) -> None:
    """Send the steps, then ask for what only users may ask for."""
    peer = Peer(world.world.driver, world.network_of("client").connect("node", SASL_PORT))
    await peer.ready("writer")
    steps = [*steps, framed(MetadataRequest(topics=None), 9)]
    for step in [b"".join(steps)] if at_once else steps:
        try:
            peer.socket.send([step])
        except OSError:
            break
        await world.pass_time(5)
    await world.pass_time(40_000)  # longer than any login may take
    while not peer.ended:
        await peer.read_some()
    peer.close()
    assert b"only-for-users" not in peer.received


def test_any_login_is_survived() -> None:
    with NodeWorld(SASL_SETTINGS | {"connection.failed.authentication.delay.ms": "100"}) as world:
        world.run(world.start())
        world.run(world.create_topic("only-for-users"))

        @settings(max_examples=50)
        @given(steps=STEPS, at_once=st.booleans())
        def survives(steps: list[bytes], at_once: bool) -> None:
            world.run(play(world, steps, at_once=at_once))

        survives()

        async def still_serves() -> None:
            client = await connect_sasl(world)
            assert (await log_in(client, "PLAIN", plain())).error_code == 0
            reply = await client.ask(MetadataRequest(topics=None), 9)
            assert [topic.name for topic in reply.topics] == ["only-for-users"]

        world.run(still_serves())
        world.run(world.stop())
