"""OpenTelemetry's traces of what a producer sends, for programs that have chosen to have them.

    from headrace.clients.tracing import instrument_producer

    with instrument_producer(Producer({"bootstrap.servers": "127.0.0.1:9092"})) as producer:
        producer.send("orders", b"value")

Each record has a span from `send` to its acknowledgement, under the span that is current in the caller, with
the names that OpenTelemetry has for messaging. Its headers carry the span's context (`traceparent`), so that
whoever consumes it, in any language, can go on with the trace: `context_of` reads it here. A producer that is
not instrumented pays nothing. Where spans go is the program's own choice, made with OpenTelemetry's SDK; this
needs its API alone (pip install 'headrace[tracing]').
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from headrace.clients.internals.consumer.completed_fetch import ConsumerRecord
from headrace.clients.internals.producer.encoding import Headers
from headrace.clients.internals.producer.producer_batch import Delivery
from headrace.clients.producer import AsyncProducer, Producer

NAME: Final = "headrace.clients"

P = TypeVar("P", Producer, AsyncProducer)


def instrument_producer(producer: P, tracer: Tracer | None = None) -> P:
    """The same producer, whose `send` has a span from here on. Tables (`send_arrow`) have none."""
    begin = _Spans(producer, tracer or trace.get_tracer(NAME)).begin
    send: Callable[..., Any] = producer.send
    if isinstance(producer, AsyncProducer):

        @wraps(send)
        async def traced_async(
            topic: str, value: Any = None, *, headers: Headers = (), **more: Any
        ) -> Delivery:
            span, carried = begin(topic, headers)
            try:
                return _ended_by(span, await send(topic, value, headers=carried, **more))
            except BaseException as error:
                _fail(span, error)
                raise

        producer.send = traced_async  # type: ignore[method-assign]
    else:

        @wraps(send)
        def traced(topic: str, value: Any = None, *, headers: Headers = (), **more: Any) -> Delivery:
            span, carried = begin(topic, headers)
            try:
                return _ended_by(span, send(topic, value, headers=carried, **more))
            except BaseException as error:
                _fail(span, error)
                raise

        producer.send = traced  # type: ignore[method-assign]
    return producer


def context_of(record: ConsumerRecord) -> Context:
    """The trace that a record is part of, for `start_span(…, context=context_of(record))`."""
    headers = {name: value.decode(errors="replace") for name, value in record.headers if value is not None}
    return propagate.extract(headers)


class _Spans:
    """Makes the spans of one producer."""

    def __init__(self, producer: Producer | AsyncProducer, tracer: Tracer) -> None:
        core = producer.core if isinstance(producer, AsyncProducer) else producer._core
        client_id = core.config.str("client.id")
        self._tracer = tracer
        self._attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            **({"messaging.client.id": client_id} if client_id else {}),
        }

    def begin(self, topic: str, headers: Headers) -> tuple[Span, Headers]:
        """The span of a record, and the headers that it goes with. Keys and values are in no trace."""
        attributes = {**self._attributes, "messaging.destination.name": topic}
        span = self._tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        own = [each for each in headers if each[0] not in carrier]
        return span, (*own, *((name, value.encode()) for name, value in carrier.items()))


def _ended_by(span: Span, delivery: Delivery) -> Delivery:
    """It ends with the record's acknowledgement, in the producer's own thread."""

    def end(delivery: Delivery) -> None:
        error = delivery.exception(0)
        if error is not None:
            _fail(span, error)
            return
        if span.is_recording():
            _, partition, offset, _ = delivery.result(0)
            span.set_attribute("messaging.destination.partition.id", str(partition))
            if offset >= 0:
                span.set_attribute("messaging.kafka.offset", offset)
        span.end()

    delivery.add_done_callback(end)
    return delivery


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
