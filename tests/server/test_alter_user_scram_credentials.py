"""AlterUserScramCredentials: users are made, changed and removed, each as a whole."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.controller.cluster_state import ClusterState
from headrace.controller.scram_control import alter_user_scram_credentials
from headrace.metadata.image import MetadataImage
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.wire.schemas.metadata_records import FeatureLevelRecord
from tests.server.node_world import SETTINGS, NodeWorld, simulated
from tests.server.sasl_world import add_user, connect_sasl, log_in, run_with_sasl, scram_login

SALTED = b"s" * 32


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", SALTED)


@simulated()
async def test_each_user_succeeds_or_fails_as_a_whole(world: NodeWorld) -> None:
    client = await world.connect()
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion("gone", 1), ScramCredentialDeletion("both", 2)],
        upsertions=[
            upsertion("good", 1),
            upsertion("good", 2),
            upsertion("both", 1),
            upsertion("", 1),
            upsertion("few", 1, 4095),
            upsertion("many", 1, 16385),
            upsertion("what", 3),
            upsertion("twice", 1),
            upsertion("twice", 1),
            ScramCredentialUpsertion("empty", 1, 4096, b"salt", b""),
        ],
    )
    reply = await client.ask(request, 0)
    assert {each.user: (each.error_code, each.error_message) for each in reply.results} == {
        "gone": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        "both": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        "good": (0, None),
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "what": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "twice": (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        "empty": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "A salt and a salted password are needed"),
    }
    assert sorted(world.node.image.security.scram) == [("good", 1), ("good", 2)]


@simulated()
async def test_the_password_is_in_no_record(world: NodeWorld) -> None:
    await (await world.connect()).ask(AlterUserScramCredentialsRequest(upsertions=[upsertion("alice")]), 0)
    (record,) = world.node.image.security.scram.values()
    assert SALTED not in (bytes(record.stored_key), bytes(record.server_key))


def test_a_password_that_is_changed_holds_at_once_and_after_a_restart() -> None:
    async def fails(world: NodeWorld, password: str) -> bool:
        client = await connect_sasl(world)
        reply = await log_in(client, "SCRAM-SHA-256", scram_login("alice", password))
        return bool(reply.error_code)

    async def script(world: NodeWorld) -> None:
        client = await world.connect()
        await add_user(client, "alice", "old")
        assert not await fails(world, "old")
        await add_user(client, "alice", "new")
        assert await fails(world, "old")
        assert not await fails(world, "new")
        await world.stop()
        await world.start()
        assert not await fails(world, "new")
        removal = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion("alice", 1)])
        assert (await (await world.connect()).ask(removal, 0)).results[0].error_code == 0
        assert await fails(world, "new")

    run_with_sasl(script)


@pytest.mark.parametrize("version", [10, 11])
def test_an_old_metadata_version_has_no_users(version: int) -> None:
    image = MetadataImage("c")
    image.replay_all([FeatureLevelRecord(name="metadata.version", feature_level=version)])
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion("alice")])
    result = alter_user_scram_credentials(ClusterState(image, BrokerConfig(SETTINGS)), request)
    assert bool(result.records) is (version == 11)
    expected = 0 if version == 11 else ErrorCode.UNSUPPORTED_VERSION
    assert result.reply.results[0].error_code == expected
