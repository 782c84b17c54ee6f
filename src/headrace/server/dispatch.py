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

What a request of a version needs is looked up once and kept as a `Route`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.base.chunks import Buffer, Chunk, Chunks
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.server.api_table import ApiTable, Handler
from headrace.server.context import NO_REPLY, Peer, RequestContext, SaslExchange
from headrace.server.error_replies import error_reply, forget_records
from headrace.server.handlers.api_versions import unsupported_version_reply
from headrace.transport.complaints import Complaints
from headrace.transport.connection import Connection, ReplySlot
from headrace.wire.apis import API, API_VERSIONS, Api
from headrace.wire.codec import reader, writer
from headrace.wire.framing import RequestHeader, read_request_header, response_frame

if TYPE_CHECKING:
    from headrace.server.parts import Parts

log = logging.getLogger(__name__)

PRODUCE: Final = 0
# What may be asked before the client has proven who it is: SaslHandshake, ApiVersions, SaslAuthenticate.
BEFORE_AUTHENTICATION: Final = frozenset({17, API_VERSIONS, 36})
# A stranger's largest frame: SASL tokens are small (Kafka: sasl.server.max.receive.size).
STRANGER_FRAME_BYTES_MAX: Final = 512 * 1024


class Route(NamedTuple):
    """All that one version of one request kind needs."""

    api: Api
    version: int
    read: Callable[[Buffer, int], tuple[Any, int]]
    handle: Handler
    response: type[Any]
    write: Callable[[Any], list[Chunk]]


class Dispatcher:
    """Serves one kind of listener: a `transport.Listener` gets its `opener(...)` and its `on_frame`."""

    def __init__(self, parts: Parts, table: ApiTable) -> None:
        self._parts = parts
        self._table = table
        self._routes: dict[tuple[int, int], Route] = {}
        self._failures = Complaints(parts.loop, log, logging.ERROR)

    def opener(
        self, listener: str, new_exchange: Callable[[], SaslExchange] | None = None
    ) -> Callable[[Connection], None]:
        """The `on_open` of a listener with this name; with `new_exchange` its clients must authenticate."""

        def on_open(connection: Connection) -> None:
            sasl = None if new_exchange is None else new_exchange()
            connection.attached = Peer(
                connection,
                listener=listener,
                table=self._table,
                authenticated=sasl is None,
                sasl=sasl,
                opened_at=self._parts.loop.time(),
            )
            if sasl is not None:
                connection.frame_bytes_max = STRANGER_FRAME_BYTES_MAX

        return on_open

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request."""
        header = read_request_header(frame)
        peer: Peer = connection.attached
        if not peer.authenticated and header.api_key not in BEFORE_AUTHENTICATION:
            raise InvalidBytesError(f"API {header.api_key} was asked for before authentication")
        route = self._routes.get((header.api_key, header.api_version))
        if route is None:
            route = self._new_route(header)
            if route is None:
                connection.send(unsupported_version_reply(self._table, header.correlation_id))
                return
        request = route.read(frame, header.body_at)[0]
        context = RequestContext(
            header.api_key, header.api_version, header.correlation_id, header.client_id, peer, self._parts
        )
        try:
            result = route.handle(context, request)
        except Exception as error:
            result = self._failure(route, context, request, error)
        if type(result) is route.response:
            connection.send(self._encode(route, context, request, result))
        elif result is not NO_REPLY:
            self._reply_later(route, context, request, connection.begin_reply(), result)

    def _new_route(self, header: RequestHeader) -> Route | None:
        """Look a request kind up for the first time; None for ApiVersions of a version that is not served."""
        key, version = header.api_key, header.api_version
        row = self._table.find(key, version)
        if row is None:
            if key == API_VERSIONS:
                return None
            raise InvalidBytesError(f"API {key} is not served here in version {version}")
        api = API[key]
        route = Route(
            api,
            version,
            reader(api.request, version),
            row.load(),
            api.response,
            writer(api.response, version),
        )
        self._routes[key, version] = route
        return route

    def _reply_later(
        self, route: Route, context: RequestContext, request: Any, slot: ReplySlot, result: Any
    ) -> None:
        """Fill the slot when the future that a handler returned is done."""
        if route.api.key == PRODUCE:
            forget_records(request)

        def reply(done: asyncio.Future[Any]) -> None:
            try:
                response = done.result()
            except (Exception, asyncio.CancelledError) as error:
                response = self._failure(route, context, request, error)
            slot.send(self._encode(route, context, request, response))

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
            self._failures.write("%s failed: %s", route.api.name, context, error=error)
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        response = error_reply(request, route.response, route.version, error)
        if response is None:
            context.connection.close(f"{route.api.name} failed: {error}")
            return NO_REPLY
        return response
