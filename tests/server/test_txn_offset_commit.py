"""TxnOffsetCommit: offsets that wait for their transaction."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.testing.disk import Crash
from headrace.wire.schemas.txn_offset_commit import TxnOffsetCommitRequest
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_requests import commit, fetch_offsets
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.txn_requests import commit_offsets, end
from tests.server.txn_world import begin


@pytest.mark.parametrize(
    "section", ["Not added", "Pending, then committed", "Pending, then aborted", "Members"]
)
def test_answers_as_kafka_does(section: str) -> None:
    assert_answers_as_kafka("txn_offset_commit", section)


async def committed(client: Client) -> int:
    reply = await client.ask(fetch_offsets(9, "g", "t", [0]), 9)
    return int(reply.groups[0].topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize("ends_well", [True, False])
@simulated()
async def test_pending_offsets_survive_a_crash_and_end_after_it(world: NodeWorld, ends_well: bool) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    who = await begin(client, "x")
    assert (await client.ask(commit("g", "t", {0: 1}), 9)).topics[0].partitions[0].error_code == 0
    reply = await client.ask(commit_offsets(who, "g", "t", {0: 7}), 5)
    assert reply.topics[0].partitions[0].error_code == 0
    await world.pass_time(6_000)
    world.kill(Crash.KILL)
    await world.start()
    client = await world.connect()
    assert await committed(client) == 1
    assert (await client.ask(end(who, commit=ends_well), 5)).error_code == 0
    assert await committed(client) == (7 if ends_well else 1)
    world.kill(Crash.KILL)
    await world.start()
    assert await committed(await world.connect()) == (7 if ends_well else 1)


@simulated()
async def test_neither_a_group_nor_an_id_is_nobody(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    who = await begin(client, "x")
    reply = await client.ask(commit_offsets(who, "", "t", {0: 7}), 5)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID
    reply = await client.ask(commit_offsets(("", who[1], who[2]), "g", "t", {0: 7}), 5)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


@simulated()
async def test_topics_go_by_id(world: NodeWorld) -> None:
    """And errors that had no words before (KIP-1319)."""
    topic_id = await world.create_topic("t")
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    who = await begin(client, "x")

    def by_id(wanted: bytes, **member: Any) -> TxnOffsetCommitRequest:
        request = commit_offsets(who, "g", "t", {0: 7})
        request.topics[0].topic_id = wanted
        return replace(request, **member)

    reply = await client.ask(by_id(bytes(15) + b"x"), 6)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    reply = await client.ask(by_id(topic_id, member_id="m", generation_id=3), 6)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    reply = await client.ask(by_id(topic_id, member_id="m", generation_id=3), 5)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
    reply = await client.ask(by_id(topic_id), 6)
    assert (reply.topics[0].topic_id, reply.topics[0].partitions[0].error_code) == (topic_id, 0)
    assert (await client.ask(end(who, commit=True), 5)).error_code == 0
    assert await committed(client) == 7
