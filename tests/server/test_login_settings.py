"""Users of PLAIN who are changed while the node runs; and that nobody is shown a secret."""

import logging
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.node_world import Client, NodeWorld
from tests.server.sasl_world import PLAIN_MODULE, TOKENS, connect_sasl, log_in, plain, run_with_sasl

NAME = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
BROKER = 4


async def set_users(client: Client, line: str) -> Any:
    resource = AlterConfigsResource(BROKER, "1", [AlterableConfig(NAME, 0, line)])
    (answer,) = (await client.ask(IncrementalAlterConfigsRequest([resource]), 1)).responses
    return answer


async def can_log_in(world: NodeWorld, name: str, password: str) -> bool:
    reply = await log_in(await connect_sasl(world), "PLAIN", plain(name, password))
    return not reply.error_code


def test_users_are_replaced_at_once_and_a_wrong_line_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def script(world: NodeWorld) -> None:
        client = await world.connect()
        assert await can_log_in(world, "alice", "alice-secret")
        assert (await set_users(client, f'{PLAIN_MODULE} required user_dora="hunter2";')).error_code == 0
        assert await can_log_in(world, "dora", "hunter2")
        assert not await can_log_in(world, "alice", "alice-secret")
        for line in (f'{PLAIN_MODULE} required user_x="hunter3', 'com.evil.Module required x="hunter3";'):
            answer = await set_users(client, line)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert "hunter" not in answer.error_message
        assert await can_log_in(world, "dora", "hunter2")

    with caplog.at_level(logging.DEBUG):
        run_with_sasl(script)
    assert "hunter" not in caplog.text


def test_no_secret_is_described() -> None:
    async def script(world: NodeWorld) -> None:
        client = await world.connect()
        await set_users(client, f'{PLAIN_MODULE} required user_dora="hunter2";')
        request = DescribeConfigsRequest(
            [DescribeConfigsResource(BROKER, "1", None)], include_synonyms=True, include_documentation=True
        )
        reply = await client.ask(request, 4)
        (result,) = reply.results
        told = {each.name: each for each in result.configs}
        for name in (NAME, "delegation.token.secret.key"):
            assert told[name].is_sensitive
            assert told[name].value is None
            assert all(each.value is None for each in told[name].synonyms)
        assert "hunter" not in repr(reply)
        assert "alice-secret" not in repr(reply)
        assert TOKENS["delegation.token.secret.key"] not in repr(reply)

    run_with_sasl(script, TOKENS)
