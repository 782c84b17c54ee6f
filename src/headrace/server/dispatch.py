"""From a frame to its reply: header, version, body, handler, and the reply in the order of requests.

A frame whose bytes break the protocol (unknown key or version, a body that does not follow its schema) raises
InvalidBytesError, on which the connection closes itself: the stream behind it cannot be trusted. The one
exception is ApiVersions in a version from the future, which is answered in the form of v0 so that client and
broker can agree.

A handler is a plain function. What it returns is written at once; a Future gets a slot among the connection's
replies and is written when it is done. Nothing of the request's frame may be used after the handler returned,
so the records of a Produce are taken from its request before it waits. An ApiError that escapes becomes the
API's own form of an error (`error_replies`); any other exception is a fault of ours: logged, and told as
UNKNOWN_SERVER_ERROR.

Nothing may take long at once, because everybody waits for it. A request that is too long to be read at once
is copied and read in slices, and a handler that is a generator works in slices; both are done by
`long_requests`, when it is the connection's turn. A request whose frame has room for many entries takes the
route that its row has for those (`request_pieces`).

What a request of a version needs is looked up once and kept as a `Route`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.base.chunks import Buffer, Chunk, Chunks
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.server.api_table import ApiTable, Row
from headrace.server.auditing import audited
from headrace.server.context import NO_REPLY, Peer, PreparedReply, RequestContext, SaslExchange
from headrace.server.error_replies import error_reply, forget_records
from headrace.server.forwarding import Handler
from headrace.server.handlers.api_versions import unsupported_version_reply
from headrace.server.long_requests import let_go
from headrace.server.request_pieces import LONG_FRAME_BYTES
from headrace.telemetry.metrics.request_metrics import RequestMetrics, RequestTimes
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.connection import Connection, Work
from headrace.transport.reply_slot import ReplySlot
from headrace.wire.apis import API, Api, ApiKey
from headrace.wire.codec import LongMessageError, short_reader, sliced_reader, sliced_writer, writer
from headrace.wire.framing import RequestHeader, read_request_header, response_frame

if TYPE_CHECKING:
    from headrace.server.parts import Parts


class Route(NamedTuple):
    """All that one version of one request kind needs."""

    api: Api
    version: int
    read: Callable[[Buffer, int], tuple[Any, int]]
    handle: Handler
    response: type[Any]
    write: Callable[[Any], list[Chunk]]
    metrics: RequestMetrics
    long: Route | None = None  # for requests with many entries, where that is another one


def _admit(peer: Peer, frame: memoryview) -> bool:
    """Whether a frame of somebody who is not logged in is a request to be served; InvalidBytesError where it
    may not be asked now."""
    sasl = peer.sasl
    assert sasl is not None, "only a SASL listener has strangers"
    if sasl.takes_raw_token:
        sasl.take_raw_token(bytes(frame))
        return False
    sasl.admit(read_request_header(frame).api_key)
    return True


def end_login(connection: Connection) -> None:
    """A connection of a SASL listener is closed."""
    peer: Peer | None = connection.attached
    if peer is not None and peer.sasl is not None:
        peer.sasl.close()


def _note_reply(times: RequestTimes, response: Any) -> None:
    times.replied(getattr(response, "throttle_time_ms", 0))


def _note_no_reply(times: RequestTimes) -> None:
    times.replied()
    times.sent()


def _work_on(connection: Connection, work: Work, times: RequestTimes | None) -> None:
    """Do the request in slices, when it is the connection's turn."""
    if times is not None:
        times.pause()
        work = times.in_slices(work)
    connection.work_on(work)


class Dispatcher:
    """Serves one kind of listener: a `transport.Listener` gets its `opener(...)` and its `on_frame`. Nodes
    that ask each other have no quotas."""

    def __init__(self, parts: Parts, table: ApiTable, *, has_quotas: bool = True) -> None:
        self._parts = parts
        self._table = table
        self._has_quotas = has_quotas
        self._routes: dict[tuple[int, int], Route] = {}

    def opener(
        self,
        listener: str,
        new_exchange: Callable[[Peer], SaslExchange] | None = None,
        channel_builder: ChannelBuilder = PLAINTEXT,
    ) -> Callable[[Connection], None]:
        """The `on_open` of a listener with this name; with `new_exchange` its clients must authenticate."""

        def on_open(connection: Connection) -> None:
            connection.attached = peer = Peer(
                connection, listener=listener, table=self._table, opened_at=self._parts.loop.time()
            )
            peer.principal = channel_builder.principal_of(connection.socket)
            if new_exchange is not None:
                peer.sasl = new_exchange(peer)
                peer.authenticated = False

        return on_open

    def forget_routes(self) -> None:
        """What is put around handlers has changed."""
        self._routes.clear()

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request."""
        peer: Peer = connection.attached
        if not peer.authenticated and not _admit(peer, frame):
            return
        header = read_request_header(frame)
        peer.last_request = header
        route = self._routes.get((header.api_key, header.api_version))
        if route is None:
            route = self._new_route(header)
            if route is None:
                connection.send(unsupported_version_reply(self._table, header.correlation_id))
                return
        metrics = route.metrics
        metrics.count += 1
        times = None if metrics.count & metrics.sampled else self._look_at(metrics, connection, frame)
        context = RequestContext(
            header.api_key, header.api_version, header.correlation_id, header.client_id, peer, self._parts
        )
        if len(frame) >= LONG_FRAME_BYTES:
            route = route.long or route
        try:
            request = route.read(frame, header.body_at)[0]
        except LongMessageError:
            work = self._read_slowly(route, context, bytearray(frame), header.body_at, times)
            _work_on(connection, work, times)
            return
        self._serve(connection, route, context, request, times)

    def _look_at(self, metrics: RequestMetrics, connection: Connection, frame: memoryview) -> RequestTimes:
        now_ns = self._parts.clock.monotonic_ns
        return RequestTimes(metrics.kind, now_ns, read_ns=connection.read_at_ns, request_bytes=len(frame))

    def _serve(
        self,
        connection: Connection,
        route: Route,
        context: RequestContext,
        request: Any,
        times: RequestTimes | None,
    ) -> None:
        try:
            result = route.handle(context, request)
        except Exception as error:
            result = self._failure(route, context, request, error)
        if type(result) is route.response:
            chunks = self._encode(route, context, request, result)
            if times is not None:
                _note_reply(times, result)
            connection.send(chunks, times)
        elif type(result) is PreparedReply:
            chunks = response_frame(route.api, route.version, context.correlation_id, result.body)
            if times is not None:
                _note_reply(times, result)
            connection.send(chunks, times)
        elif type(result) is GeneratorType:
            slot = connection.begin_reply()
            work = self._answer_slowly(route, context, request, slot, result, times)
            _work_on(connection, work, times)
        elif result is not NO_REPLY:
            self._reply_later(route, context, request, connection.begin_reply(), result, times)
        elif times is not None:
            _note_no_reply(times)

    def _new_route(self, header: RequestHeader) -> Route | None:
        """Look a request kind up for the first time; None for ApiVersions of a version that is not served."""
        key, version = header.api_key, header.api_version
        row = self._table.find(key, version)
        if row is None:
            if key == ApiKey.API_VERSIONS:
                return None
            raise InvalidBytesError(f"API {key} is not served here in version {version}")
        api = API[key]
        route = Route(
            api,
            version,
            short_reader(api.request, version),
            self._handler(row, api),
            api.response,
            writer(api.response, version),
            self._parts.request_log.metrics.of(api.name, version),
        )
        if row.long is not None:
            route = route._replace(long=route._replace(handle=self._handler(row, api, is_long=True)))
        self._routes[key, version] = route
        return route

    def _handler(self, row: Row, api: Api, *, is_long: bool = False) -> Handler:
        """What serves a row's requests, with all that stands before it."""
        handle = row.load_guarded(self._parts.authorizer, is_long=is_long)
        handle = self._parts.request_log.watched(api, handle)
        if self._parts.audit is not None:
            handle = audited(self._parts.audit, api.key, handle)
        if is_long and row.long is not None:
            handle = row.long.around(handle, api.response)
        return self._parts.quotas.guarded(api.key, handle) if self._has_quotas else handle

    def _read_slowly(
        self, route: Route, context: RequestContext, frame: bytearray, at: int, times: RequestTimes | None
    ) -> Work:
        """Read a request in slices from a copy of its frame, then serve it."""
        connection = context.peer.connection
        try:
            request, _ = yield from sliced_reader(route.api.request, route.version)(frame, at)
        except InvalidBytesError as error:
            connection.refuse(error)
            return
        try:
            result = route.handle(context, request)
        except Exception as error:
            result = self._failure(route, context, request, error)
        if result is NO_REPLY:
            if times is not None:
                _note_no_reply(times)
            return
        yield from self._answer_slowly(route, context, request, connection.begin_reply(), result, times)

    def _answer_slowly(
        self,
        route: Route,
        context: RequestContext,
        request: Any,
        slot: ReplySlot,
        result: Any,
        times: RequestTimes | None,
    ) -> Work:
        """Do what a handler left to be done in slices, write the reply in slices, and let go of both."""
        response = result
        try:
            if type(result) is GeneratorType:
                response = yield from result
        except (Exception, asyncio.CancelledError) as error:
            response = self._failure(route, context, request, error)
        if asyncio.isfuture(response):
            self._reply_later(route, context, request, slot, response, times)
            return
        if type(response) is route.response:
            chunks = yield from self._encode_slowly(route, context, request, response)
        else:
            chunks = self._encode(route, context, request, response)
        if times is not None:
            _note_reply(times, response)
        slot.send(chunks, times)
        yield from let_go(response)
        yield from let_go(request)

    def _encode_slowly(
        self, route: Route, context: RequestContext, request: Any, response: Any
    ) -> Generator[None, None, Chunks]:
        try:
            body = yield from sliced_writer(route.response, route.version)(response)
        except Exception as error:
            return self._encode(route, context, request, self._failure(route, context, request, error))
        return response_frame(route.api, route.version, context.correlation_id, body)

    def _reply_later(
        self,
        route: Route,
        context: RequestContext,
        request: Any,
        slot: ReplySlot,
        result: Any,
        times: RequestTimes | None,
    ) -> None:
        """Fill the slot when the future that a handler returned is done."""
        if times is not None:
            times.pause()
        if route.api.key is ApiKey.PRODUCE:
            forget_records(request)

        def reply(done: asyncio.Future[Any]) -> None:
            try:
                response = done.result()
            except (Exception, asyncio.CancelledError) as error:
                response = self._failure(route, context, request, error)
            chunks = self._encode(route, context, request, response)
            if times is not None:
                _note_reply(times, response)
            slot.send(chunks, times)

        if not asyncio.isfuture(result):
            error = TypeError(f"{result!r} is neither a response nor a future")
            slot.send(self._encode(route, context, request, self._failure(route, context, request, error)))
        elif result.done():
            reply(result)
        else:
            result.add_done_callback(reply)

    def _encode(self, route: Route, context: RequestContext, request: Any, response: Any) -> Chunks:
        """The whole frame of a response; nothing for NO_REPLY."""
        if response is NO_REPLY:
            return ()
        if type(response) is PreparedReply:
            return response_frame(route.api, route.version, context.correlation_id, response.body)
        try:
            body = route.write(response)
        except Exception as error:
            # What the wire cannot hold was put there by us, whatever the exception is called.
            response = self._failure(route, context, request, error)
            if response is NO_REPLY:
                return ()
            body = route.write(response)
        return response_frame(route.api, route.version, context.correlation_id, body)

    def _failure(self, route: Route, context: RequestContext, request: Any, error: BaseException) -> Any:
        """The response that tells of an error; NO_REPLY, the connection closed, where there can be none."""
        if isinstance(error, asyncio.CancelledError):
            # The node stops, and with it whoever was to answer: the client may ask another one.
            error = ApiError(ErrorCode.REQUEST_TIMED_OUT, "the node that was asked stops")
        elif not isinstance(error, ApiError):
            self._parts.faults.note(f"{route.api.name} failed", error, context)
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._parts.request_log.refuse(context.api_key, error.code, error.message, context)
        response = error_reply(request, route.response, route.version, error)
        if response is None:
            context.peer.close(f"{route.api.name} failed: {error}")
            return NO_REPLY
        return response
