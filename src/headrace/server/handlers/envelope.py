"""Envelope (58), v0: a broker forwards a client's request to the active controller (KIP-590).

The request is carried out as if its client had sent it here: with its principal, address and version, and
with no more rights than those. Who forwards must be able to act for the cluster, or anybody could be anyone.
Only what this listener serves can be forwarded: UNSUPPORTED_VERSION otherwise. NOT_CONTROLLER where this node
is not active. INVALID_REQUEST for what is no request, or has no client. An error within the forwarded request
is in its reply, inside the envelope.
"""

import asyncio
import ipaddress
from asyncio import Future
from types import GeneratorType
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.futures import complete_with
from headrace.controller.drivers.active_controller import client_id_of
from headrace.server.context import ANONYMOUS, Peer, RequestContext
from headrace.server.error_replies import error_reply
from headrace.server.forwarding import own_controller
from headrace.server.long_requests import at_once
from headrace.wire.apis import API, Api, ApiKey
from headrace.wire.codec import decode, encode_chunks, join_chunks
from headrace.wire.framing import RequestHeader, read_request_header, response_frame
from headrace.wire.schemas.envelope import EnvelopeRequest, EnvelopeResponse
from headrace.wire.schemas.principal import DefaultPrincipalData

FRAME_LENGTH: Final = 4


def handle(context: RequestContext, request: EnvelopeRequest) -> Future[EnvelopeResponse]:
    if not own_controller(context).is_active:
        raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
    try:
        return _forwarded(context, request)
    except InvalidBytesError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a malformed envelope: {error}") from error


def _forwarded(context: RequestContext, request: EnvelopeRequest) -> Future[EnvelopeResponse]:
    frame = memoryview(request.request_data)
    header = read_request_header(frame)
    row = context.peer.table.find(header.api_key, header.api_version)
    if row is None or header.api_key == ApiKey.ENVELOPE:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"API {header.api_key} v{header.api_version} is not forwarded"
        )
    api = API[header.api_key]
    inner = RequestContext(
        header.api_key,
        header.api_version,
        header.correlation_id,
        client_id_of(header.client_id),
        _client(context, request),
        context.parts,
    )
    answer: Future[EnvelopeResponse] = context.parts.loop.create_future()
    once = context.parts.forwarded_once
    outcome = once.find(header)
    if outcome is None:
        asked = decode(api.request, header.api_version, bytes(frame), header.body_at)
        outcome = _carry_out(context, inner, row, asked)
        once.remember(header, outcome)
        outcome.add_done_callback(lambda done: None if _is_decided(done) else once.forget(header))

    def reply(done: "Future[Any]") -> None:
        # Whoever forwarded it waits, whatever is wrong with the reply.
        complete_with(
            answer, lambda: EnvelopeResponse(_bytes(api, header, _response(inner, done, api, header, frame)))
        )

    if outcome.done():
        reply(outcome)
    else:
        outcome.add_done_callback(reply)
    return answer


def _carry_out(context: RequestContext, inner: RequestContext, row: Any, asked: Any) -> "Future[Any]":
    try:
        result = row.load_guarded(context.parts.authorizer)(inner, asked)
        if type(result) is GeneratorType:
            result = at_once(result)
    except Exception as error:
        result = context.parts.loop.create_future()
        result.set_exception(error)
    if asyncio.isfuture(result):
        return result
    outcome: Future[Any] = context.parts.loop.create_future()
    outcome.set_result(result)
    return outcome


def _is_decided(done: "Future[Any]") -> bool:
    """Whether asking again would change nothing; False where this controller could not decide."""
    if done.cancelled():
        return False
    error = done.exception()
    return not (isinstance(error, ApiError) and error.code is ErrorCode.NOT_CONTROLLER)


def _response(
    context: RequestContext, done: "Future[Any]", api: Api, header: RequestHeader, frame: memoryview
) -> Any:
    if not done.cancelled() and done.exception() is None:
        return done.result()
    # This controller stops where it was cancelled; whoever asked it for somebody else asks the next one.
    error: BaseException | None = (
        ApiError(ErrorCode.NOT_CONTROLLER, "the controller that was asked stops")
        if done.cancelled()
        else done.exception()
    )
    assert error is not None
    if isinstance(error, ApiError):
        failure = error
    else:
        context.parts.faults.note(f"{api.name} failed", error, context)
        failure = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    asked = decode(api.request, header.api_version, bytes(frame), header.body_at)
    return error_reply(asked, api.response, header.api_version, failure)


def _bytes(api: Api, header: RequestHeader, response: Any) -> bytes:
    body = encode_chunks(response, header.api_version)
    return join_chunks(response_frame(api, header.api_version, header.correlation_id, body))[FRAME_LENGTH:]


def _client(context: RequestContext, request: EnvelopeRequest) -> Peer:
    """Whoever asked the broker, in place of the broker."""
    asking = context.peer
    client = Peer(asking.connection, listener=asking.listener, table=asking.table)
    client.is_forwarded = True
    client.principal = _principal(request.request_principal)
    try:
        client.host = str(ipaddress.ip_address(request.client_host_address))
    except ValueError as error:
        raise InvalidBytesError(f"an envelope's client has no address: {error}") from error
    return client


def _principal(data: bytes | None) -> str:
    """As Kafka serialises it: the version of the form, then the form. Older ones only get longer."""
    if not data:
        return ANONYMOUS
    form = decode(DefaultPrincipalData, 0, data, 2)
    return f"{form.type}:{form.name}"
