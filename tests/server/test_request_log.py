"""Refused and slow requests are told of, few lines however many they are."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.server.delayed_produce import complete_or_watch
from headrace.server.purgatory import Purgatory
from headrace.server.request_log import NOT_TIMED, SUM_S, RequestLog
from headrace.testing.loop import SimulatedLoop
from headrace.wire.apis import API, ApiKey
from headrace.wire.schemas.create_topics import CreatableTopicResult, CreateTopicsResponse
from tests.transport.harness import own_records

CONTEXT: Any = SimpleNamespace(client_id="c", peer="10.0.0.1:5 (User:ANONYMOUS, listener PLAINTEXT)")
WHO = f"client 'c' at {CONTEXT.peer}"


@pytest.fixture
def loop():
    made = SimulatedLoop()
    yield made
    made.close()


def told(caplog):
    return [record.getMessage() for record in own_records(caplog)]


def test_refusals_are_one_line_and_then_a_sum(loop, caplog):
    async def main():
        log = RequestLog(loop, slow_ms=1000)
        for _ in range(500):
            log.refuse(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE, "2 MB", CONTEXT)
            log.refuse(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, CONTEXT)
        log.refuse(ApiKey.CREATE_TOPICS, ErrorCode.TOPIC_ALREADY_EXISTS, None, CONTEXT)
        await asyncio.sleep(3 * SUM_S)
        log.refuse(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE, "3 MB", CONTEXT)
        log.stop()

    with caplog.at_level(logging.INFO, "headrace.server.request_log"):
        loop.run_until_complete(main())
    assert told(caplog) == [
        f"Produce of {WHO}: MESSAGE_TOO_LARGE, 2 MB",
        f"CreateTopics of {WHO}: TOPIC_ALREADY_EXISTS",
        "refused in the last 60 s: 499 Produce with MESSAGE_TOO_LARGE",
        f"Produce of {WHO}: MESSAGE_TOO_LARGE, 3 MB",
    ]


def test_errors_in_a_reply_are_refusals_and_a_long_wait_is_told(loop, caplog):
    refusal = CreatableTopicResult("t", error_code=36, error_message="it is there")
    answer = CreateTopicsResponse(topics=[refusal])

    async def main():
        log = RequestLog(loop, slow_ms=1000)
        later = loop.create_future()
        handle = log.watched(API[ApiKey.CREATE_TOPICS], lambda context, request: later)
        assert handle(CONTEXT, None) is later
        await asyncio.sleep(1.5)
        later.set_result(answer)
        await asyncio.sleep(0)
        log.stop()

    with caplog.at_level(logging.INFO, "headrace.server.request_log"):
        loop.run_until_complete(main())
    assert told(caplog) == [
        f"CreateTopics of {WHO} took 1500 ms",
        f"CreateTopics of {WHO}: TOPIC_ALREADY_EXISTS, it is there",
    ]


def test_the_data_path_is_not_timed(loop):
    log = RequestLog(loop, slow_ms=1000)

    def handle(context, request):
        raise AssertionError

    for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.METADATA):
        assert key in NOT_TIMED
        assert log.watched(API[key], handle) is handle


def test_a_connections_long_turn_is_told_with_what_it_asked_for(loop, caplog):
    log = RequestLog(loop, slow_ms=1000)
    peer: Any = SimpleNamespace(last_request=SimpleNamespace(api_key=ApiKey.FETCH, client_id="reader"))
    log.tell_long_turn(peer, 1_500_000_000)
    log.tell_long_turn(SimpleNamespace(last_request=None), 2_000_000_000)
    first, second = told(caplog)
    assert first.startswith("Fetch of client 'reader' at ")
    assert first.endswith(" kept the node busy for 1500 ms")
    assert second.startswith("Produce of a client at ")


@pytest.mark.parametrize(("durable_to", "what"), [(7, "flushed"), (0, "replicated")])
def test_a_produce_that_waited_long_is_told_and_a_short_wait_is_not(loop, caplog, durable_to, what):
    place = TopicPartition("t", 0)
    parts: Any = SimpleNamespace(
        loop=loop, purgatory=Purgatory(loop), request_log=RequestLog(loop, slow_ms=1000)
    )

    async def wait(seconds: float) -> None:
        safe = False
        delayed: Any = SimpleNamespace(
            partition=SimpleNamespace(topic_partition=place),
            replicated_to=7,
            durable_to=durable_to,
            try_complete=lambda: safe,
        )
        waiting = complete_or_watch(parts, 30_000, [delayed], "answer", who=CONTEXT)
        await asyncio.sleep(seconds)
        safe = True
        parts.purgatory.notify(place)
        assert await waiting == "answer"

    loop.run_until_complete(wait(0.9))
    assert told(caplog) == []
    loop.run_until_complete(wait(1.2))
    assert told(caplog) == [f"Produce of {WHO}: t-0 was {what} after 1200 ms"]
