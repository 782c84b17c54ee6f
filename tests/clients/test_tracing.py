"""OpenTelemetry's spans of what a producer sends: under the caller's, ended by acknowledgement or error."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

from headrace.clients import Producer
from headrace.clients.errors import ClientError, RefusedError, TimedOutError
from headrace.clients.tracing import context_of, instrument_producer
from tests.clients.worlds import ClientWorld


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(spans: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider.get_tracer("test")


def play(script: Callable[[ClientWorld], Coroutine[Any, Any, None]]) -> None:
    with ClientWorld({}, seed=1) as world:

        async def whole() -> None:
            await world.start()
            await world.create_topic("t")
            await script(world)

        world.run(whole())


def test_a_trace_goes_from_the_sender_over_the_record_to_its_reader(
    spans: InMemorySpanExporter, tracer: Tracer
) -> None:
    async def script(world: ClientWorld) -> None:
        async with instrument_producer(world.producer(client_id="shop"), tracer) as producer:
            with tracer.start_as_current_span("order") as order:
                delivery = await producer.send("t", b"v", key=b"k", headers=[("by", b"me")])
                assert not _sent(spans)
                await delivery
        (sent,) = _sent(spans)
        assert (sent.kind, sent.status.status_code) == (SpanKind.PRODUCER, StatusCode.UNSET)
        assert sent.parent is not None
        assert sent.parent.span_id == order.get_span_context().span_id
        assert dict(sent.attributes or {}) == {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.client.id": "shop",
            "messaging.destination.name": "t",
            "messaging.destination.partition.id": "0",
            "messaging.kafka.offset": 0,
        }
        async with world.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            (record,) = await consumer.poll(10)
        assert record.headers[0] == ("by", b"me")
        found = trace.get_current_span(context_of(record)).get_span_context()
        assert (found.trace_id, found.span_id) == (sent.context.trace_id, sent.context.span_id)

    play(script)


def test_what_fails_is_said(spans: InMemorySpanExporter, tracer: Tracer) -> None:
    async def script(world: ClientWorld) -> None:
        async with instrument_producer(world.producer(max_request_size=1000), tracer) as producer:
            with pytest.raises(RefusedError):
                await producer.send("t", b"v" * 2000)
        settings = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 500, "linger_ms": 0}
        async with instrument_producer(world.producer(**settings), tracer) as producer:
            await (await producer.send("t", b"v"))
            world.partition_off()
            delivery = await producer.send("t", b"v")
            with pytest.raises(TimedOutError):
                await delivery
            world.heal()

    play(script)
    ended = [(each.status.status_code, (each.attributes or {}).get("error.type")) for each in _sent(spans)]
    assert ended == [
        (StatusCode.ERROR, "RefusedError"),
        (StatusCode.UNSET, None),
        (StatusCode.ERROR, "TimedOutError"),
    ]


def _sent(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    return [each for each in spans.get_finished_spans() if each.name == "send t"]


def test_a_producer_of_threads(spans: InMemorySpanExporter, tracer: Tracer) -> None:
    with (
        instrument_producer(Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=1), tracer) as producer,
        pytest.raises(ClientError),
    ):
        producer.send("t", b"v")
    (sent,) = _sent(spans)
    assert (sent.status.status_code, (sent.attributes or {})["error.type"]) == (
        StatusCode.ERROR,
        "UnreachableError",
    )
