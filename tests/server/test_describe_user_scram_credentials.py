"""DescribeUserScramCredentials: who can log in by SCRAM; never with what."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headrace.wire.schemas.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.server.node_world import NodeWorld, simulated


@simulated()
async def test_all_some_none_and_twice(world: NodeWorld) -> None:
    client = await world.connect()
    made = [
        ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"s" * 32),
        ScramCredentialUpsertion("alice", 2, 8192, b"salt", b"s" * 64),
        ScramCredentialUpsertion("bob", 2, 4096, b"salt", b"s" * 64),
    ]
    await client.ask(AlterUserScramCredentialsRequest(upsertions=made), 0)
    alice, bob = [CredentialInfo(1, 4096), CredentialInfo(2, 8192)], [CredentialInfo(2, 4096)]
    for everybody in (None, []):
        reply = await client.ask(DescribeUserScramCredentialsRequest(everybody), 0)
        assert (reply.error_code, reply.error_message) == (0, "")
        assert {each.user: each.credential_infos for each in reply.results} == {"alice": alice, "bob": bob}
    names = [UserName(name) for name in ("bob", "nobody", "alice", "alice")]
    reply = await client.ask(DescribeUserScramCredentialsRequest(names), 0)
    assert [(each.user, each.error_code, each.error_message) for each in reply.results] == [
        ("bob", 0, ""),
        (
            "nobody",
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: nobody",
        ),
        (
            "alice",
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: alice",
        ),
    ]
