"""What a request kind needs: the words in which rows of `server/api_table.py` say who may ask for it.

A row's authority is a list of rules, asked in order before the handler sees the request. `Whole` refuses all
of it. `Each` asks for every item of a list: what may not be done is taken out of the request, and answered
beside what the handler answers about the rest. `Shown` takes out of the reply what the client may not know
of. `InHandler` names what the handler has to ask by itself, because it depends on what it finds. `OPEN` is
for what everyone may ask.

The dispatcher puts these rules around the handler when an authorizer is configured; without one it calls the
handler as it is. The rules are those of Kafka's KafkaApis and ControllerApis, request by request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import then
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.server.authorizer import CLUSTER_NAME, Operation, Resource, allows, tell_denied
from headrace.server.context import NO_REPLY, RequestContext
from headrace.server.error_replies import refused_items
from headrace.server.long_requests import SHORT_ITEMS, SLICE_ITEMS, Slices, in_slices

if TYPE_CHECKING:
    from headrace.server.forwarding import Handler

VERSIONS_MAX: Final = 1 << 15

REFUSALS: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    Resource.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

WORDS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}
"""Kafka's words for them."""

Name: TypeAlias = Callable[[RequestContext, Any], str | None]
"""Reads the name of a resource from a request, or from an item of one; None: there is nothing to ask."""


# -- names ---------------------------------------------------------------------------------------------------


def cluster(context: RequestContext, asked: Any) -> str:
    return CLUSTER_NAME


def itself(context: RequestContext, asked: str) -> str:
    """Of an item that is a name."""
    return asked


def field(name: str) -> Name:
    return lambda context, asked: getattr(asked, name)


def topic(context: RequestContext, asked: Any) -> str | None:
    """A topic by its name, or by its id where the request has that: an id that is unknown names nothing."""
    topic_id = getattr(asked, "topic_id", NO_TOPIC_ID)
    if topic_id == NO_TOPIC_ID:
        name: str | None = asked.name
        return name or None
    found = context.parts.image.topics_by_id.get(TopicId(topic_id))
    return None if found is None else found.name


# -- rights --------------------------------------------------------------------------------------------------


class Right(Protocol):
    """What is needed for a request, or for an item of one."""

    def is_held(self, context: RequestContext, asked: Any) -> bool: ...

    def tell_denied(self, context: RequestContext, asked: Any) -> None: ...

    @property
    def refusal(self) -> ErrorCode: ...


class OneRight(NamedTuple):
    """To do something to a resource that is named in the request."""

    operation: Operation
    resource: Resource
    name: Name

    def is_held(self, context: RequestContext, asked: Any) -> bool:
        name = self.name(context, asked)
        return name is None or allows(context, self.operation, self.resource, name)

    def tell_denied(self, context: RequestContext, asked: Any) -> None:
        tell_denied(context, self.operation, self.resource, self.name(context, asked) or "")

    @property
    def refusal(self) -> ErrorCode:
        return REFUSALS[self.resource]


def on_cluster(operation: Operation) -> Right:
    return OneRight(operation, Resource.CLUSTER, cluster)


def on_topic(operation: Operation, name: Name = topic) -> Right:
    return OneRight(operation, Resource.TOPIC, name)


def on_group(operation: Operation, name: Name | None = None) -> Right:
    return OneRight(operation, Resource.GROUP, name or field("group_id"))


def on_transactional_id(operation: Operation, name: Name | None = None) -> Right:
    return OneRight(operation, Resource.TRANSACTIONAL_ID, name or field("transactional_id"))


RightOf: TypeAlias = Callable[[RequestContext, Any], Sequence[Right]]
"""Which rights an item needs, one of them, where that depends on it."""


class Rule(Protocol):
    """One step of a row's authority."""

    def guard(self, handle: Handler, response: type[Any]) -> Handler:
        """The handler with this rule before it, or behind it."""
        ...


# -- rules ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """Who has none of these rights is refused as a whole."""

    rights: tuple[Right, ...]
    refusal: ErrorCode | None = None
    versions: tuple[int, int] = (0, VERSIONS_MAX)

    def guard(self, handle: Handler, response: type[Any]) -> Handler:
        first, last = self.versions

        def guarded(context: RequestContext, request: Any) -> Any:
            if first <= context.api_version <= last and not any(
                right.is_held(context, request) for right in self.rights
            ):
                self.rights[-1].tell_denied(context, request)
                raise refusal_of(self.refusal or self.rights[-1].refusal)
            return handle(context, request)

        return guarded


@dataclass(frozen=True)
class Each:
    """Items of a list of the request, each of which needs one of the rights; `tell` adds to the result of an
    item that was refused what is not a copy of what was asked. Many are asked for in slices, unless the
    request has a part of its frame that is gone by then."""

    items: str
    rights: tuple[Right, ...] | RightOf
    versions: tuple[int, int] = (0, VERSIONS_MAX)
    words: str = ""  # in place of those of the refusal
    tell: Callable[[RequestContext, Any, Any], None] | None = None
    is_sliced: bool = True

    def guard(self, handle: Handler, response: type[Any]) -> Handler:
        first, last = self.versions

        def guarded(context: RequestContext, request: Any) -> Any:
            asked = getattr(request, self.items)
            if not asked or not first <= context.api_version <= last:
                return handle(context, request)
            if self.is_sliced and len(asked) > SHORT_ITEMS:
                return self._guard_in_slices(context, request, handle, response)
            refused = [(item, code) for item in asked if (code := self._refusal(context, item)) is not None]
            if not refused:
                return handle(context, request)
            taken_out = {id(item) for item, _ in refused}
            left = [item for item in asked if id(item) not in taken_out]
            result = handle(context, replace(request, **{self.items: left})) if left else response()
            if getattr(request, "acks", 1) == 0:
                # All that such a producer can notice is the end of its connection.
                context.peer.close("a Produce with acks=0 was refused")
                return NO_REPLY
            results = self._results(context, request, response, refused)
            return _afterwards(context, result, lambda reply: _beside(reply, results))

        return guarded

    def _guard_in_slices(
        self, context: RequestContext, request: Any, handle: Handler, response: type[Any]
    ) -> Slices[Any]:
        asked = getattr(request, self.items)
        codes = yield from in_slices(asked, lambda item: self._refusal(context, item))
        refused = [(item, code) for item, code in zip(asked, codes, strict=True) if code is not None]
        left = [item for item, code in zip(asked, codes, strict=True) if code is None]
        result: Any = response()
        if left:
            result = handle(context, replace(request, **{self.items: left}) if refused else request)
        if type(result) is GeneratorType:
            result = yield from result
        results: dict[str, list[Any]] = {}
        for first in range(0, len(refused), SLICE_ITEMS):
            some = self._results(context, request, response, refused[first : first + SLICE_ITEMS])
            for name, made in some.items():
                results.setdefault(name, []).extend(made)
            yield
        return _afterwards(context, result, lambda reply: _beside(reply, results)) if results else result

    def _refusal(self, context: RequestContext, item: Any) -> ErrorCode | None:
        rights = self.rights if isinstance(self.rights, tuple) else self.rights(context, item)
        if not rights or any(right.is_held(context, item) for right in rights):
            return None
        rights[-1].tell_denied(context, item)
        return rights[-1].refusal

    def _results(
        self,
        context: RequestContext,
        request: Any,
        response: type[Any],
        refused: Sequence[tuple[Any, ErrorCode]],
    ) -> dict[str, list[Any]]:
        results: dict[str, list[Any]] = {}
        for code in dict.fromkeys(code for _, code in refused):
            items = [item for item, refusal in refused if refusal is code]
            error = ApiError(code, self.words or WORDS[code])
            found = refused_items(request, self.items, items, response, context.api_version, error)
            for name, made in found.items():
                if self.tell is not None:
                    for item, result in zip(items, made, strict=True):
                        self.tell(context, item, result)
                results.setdefault(name, []).extend(made)
        return results


@dataclass(frozen=True)
class Shown:
    """What a reply may show: `look` changes it before it leaves."""

    look: Callable[[RequestContext, Any, Any], None]

    def guard(self, handle: Handler, response: type[Any]) -> Handler:
        def guarded(context: RequestContext, request: Any) -> Any:
            def look(reply: Any) -> Any:
                if type(reply) is response:
                    self.look(context, request, reply)
                return reply

            return _afterwards(context, handle(context, request), look)

        return guarded


@dataclass(frozen=True)
class InHandler:
    """The handler asks for these rights by itself: for what depends on what it finds."""

    rights: tuple[Right, ...]

    def guard(self, handle: Handler, response: type[Any]) -> Handler:
        return handle


Authority: TypeAlias = tuple[Rule, ...]

OPEN: Final[Authority] = (InHandler(()),)
"""Everyone may ask: before it is known who somebody is, and what everyone has to know to ask at all."""


def guarded(authority: Authority, handle: Handler, response: type[Any]) -> Handler:
    """A handler behind the rules of its row."""
    for rule in reversed(authority):
        handle = rule.guard(handle, response)
    return handle


# -- refusing ------------------------------------------------------------------------------------------------


def refusal_of(code: ErrorCode) -> ApiError:
    return ApiError(code, WORDS.get(code, ""))


def _beside(reply: Any, refused: dict[str, list[Any]]) -> Any:
    """What the handler answered, with the results of what it was not asked for behind it."""
    for name, items in refused.items():
        getattr(reply, name).extend(items)
    return reply


def _afterwards(context: RequestContext, result: Any, change: Callable[[Any], Any]) -> Any:
    """A handler's result with the reply changed, whenever that comes."""
    if asyncio.isfuture(result):
        return then(result, change, loop=context.parts.loop)
    if type(result) is GeneratorType:
        return _afterwards_slowly(context, result, change)
    return change(result)


def _afterwards_slowly(context: RequestContext, slices: Any, change: Callable[[Any], Any]) -> Any:
    result = yield from slices
    return _afterwards(context, result, change)
