"""What is done with requests that have many entries: a table by request kind.

Nobody may hold the loop for long, and a request that names two hundred thousand things would. So each kind
whose work grows with a list of the request stands here:

- `Pieces`: everything behind the dispatcher (authority, audit, handler) is asked piece by piece, as if the
  client had sent several small requests, and the replies are joined in their order. For kinds whose entries
  have nothing to do with each other.
- `AtMost`: what the controller decides is one step, and Apache Kafka lets none write more than 10,000 records
  (QuorumController.MAX_RECORDS_PER_USER_OP). A request with more entries than that is refused as a whole with
  POLICY_VIOLATION before anybody looks at them. Kafka counts what an operation writes, and refuses later.
- `IN_SLICES`: the handler has a second form, `handle_in_slices`, a generator: for kinds that write once,
  after each entry was looked at.

Short requests pay nothing for this: the dispatcher knows them by the length of their frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.controller_result import RECORDS_PER_REQUEST_MAX
from headrace.server.error_replies import error_reply
from headrace.server.long_requests import SHORT_ITEMS, SLICE_ITEMS, Slices, awaited
from headrace.wire.apis import ApiKey
from headrace.wire.plan import fields_of

if TYPE_CHECKING:
    from headrace.server.context import RequestContext
    from headrace.server.forwarding import Handler

T = TypeVar("T")

LONG_FRAME_BYTES: Final = 2048
"""A shorter request has no room for more entries than can be looked at together."""

DECISION_ENTRIES: Final = 1000
"""In a piece that the controller decides about: each is written and waited for by itself."""

Piece: TypeAlias = tuple[Any, int]
"""A request with some of the entries; and at how many levels its first item goes on with the last one of the
piece before it."""


class Long(Protocol):
    """What is done with long requests of one kind."""

    def around(self, handle: Handler, response: type[Any]) -> Handler:
        """The handler that takes them; `handle` is the one with all that stands before it."""
        ...


class _InSlices:
    """The handler's own second form takes them."""

    def around(self, handle: Handler, response: type[Any]) -> Handler:
        return handle


IN_SLICES: Final = _InSlices()


class Pieces:
    """They are answered piece by piece. A path leads to the entries: `topics.partitions`; there are several
    where versions have different ones. `is_unique`: an entry that is named twice counts once. `in_turn`: one
    piece is answered before the next is asked.
    """

    def __init__(
        self, *paths: str, entries: int = SLICE_ITEMS, is_unique: bool = False, in_turn: bool = False
    ) -> None:
        self.paths = tuple(tuple(path.split(".")) for path in paths)
        self._entries = entries
        self._is_unique = is_unique
        self._in_turn = in_turn

    def around(self, handle: Handler, response: type[Any]) -> Handler:
        def in_pieces(context: RequestContext, request: Any) -> Any:
            at_once = max(SHORT_ITEMS, self._entries)
            if any(has_more(request, path, at_once) for path in self.paths):
                return self._answer(context, request, handle, response)
            return handle(context, request)

        return in_pieces

    def _answer(
        self, context: RequestContext, request: Any, handle: Handler, response: type[Any]
    ) -> Slices[Any]:
        if self._is_unique:
            ((name,),) = self.paths
            request = replace(request, **{name: [*dict.fromkeys(getattr(request, name))]})
        under_way: list[tuple[Any, Piece]] = []
        failure: ApiError | None = None
        for piece in self._split(request):
            if failure is None:
                try:
                    result = handle(context, piece[0])
                    if type(result) is GeneratorType:
                        result = yield from result
                    if self._in_turn:
                        result = yield from awaited(result)
                except ApiError as error:
                    failure = error  # about the request as such: the rest would hear the same
            if failure is not None:
                result = error_reply(piece[0], response, context.api_version, failure)
            under_way.append((result, piece))
            yield
        if failure is not None:
            context.parts.request_log.refuse(context.api_key, failure.code, failure.message, context)
        return (yield from self._joined(context, under_way, response))

    def _joined(
        self, context: RequestContext, under_way: Sequence[tuple[Any, Piece]], response: type[Any]
    ) -> Slices[Any]:
        joined = None
        for result, (piece, goes_on) in under_way:
            try:
                reply = yield from awaited(result)
            except ApiError as error:
                reply = error_reply(piece, response, context.api_version, error)
            if getattr(reply, "error_code", 0):
                return reply  # it is told of the request as a whole
            joined = reply if joined is None else join(joined, reply, goes_on)
            yield
        return joined

    def _split(self, request: Any) -> Iterator[Piece]:
        for path in self.paths:
            yield from split(request, path, self._entries, others=[other[0] for other in self.paths])


class AtMost:
    """They are refused where they have more entries than one decision may write records. The first path leads
    to the items that are answered one by one; each of the paths is counted by itself.
    """

    def __init__(self, *paths: str, answered: int = 1) -> None:
        self.paths = tuple(tuple(path.split(".")) for path in paths)
        self._answered = self.paths[:answered]

    def around(self, handle: Handler, response: type[Any]) -> Handler:
        def at_most(context: RequestContext, request: Any) -> Any:
            if not any(has_more(request, path, RECORDS_PER_REQUEST_MAX) for path in self.paths):
                is_short = not any(has_more(request, path, SHORT_ITEMS) for path in self.paths)
                return handle(context, request) if is_short else _waited_for(handle(context, request))
            error = ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"the request has more than {RECORDS_PER_REQUEST_MAX} entries, which are as many as are "
                "decided at once: spread them over several requests",
            )
            context.parts.request_log.refuse(context.api_key, error.code, error.message, context)
            return self._refuse(context, request, response, error)

        return at_most

    def _refuse(
        self, context: RequestContext, request: Any, response: type[Any], error: ApiError
    ) -> Slices[Any]:
        joined = None
        for path in self._answered:
            names = [other[0] for other in self._answered]
            for piece, goes_on in split(request, path, SLICE_ITEMS, others=names):
                reply = error_reply(piece, response, context.api_version, error)
                joined = reply if joined is None else join(joined, reply, goes_on)
                yield
        return joined


def _waited_for(result: Any) -> Slices[Any]:
    """A decision about many things: its reply is written in slices."""
    if type(result) is GeneratorType:
        result = yield from result
    return (yield from awaited(result))


def answered_in_pieces(request: Any, path: str, answer: Callable[[Any], T]) -> Slices[T]:
    """The joined answers to the pieces of a request: what `handle_in_slices` looks at entries with. A request
    without entries is one piece.
    """
    joined: T | None = None
    for piece, goes_on in split(request, tuple(path.split(".")), SLICE_ITEMS):
        reply = answer(piece)
        joined = reply if joined is None else join(joined, reply, goes_on)
        yield
    return answer(request) if joined is None else joined


# -- splitting -----------------------------------------------------------------------------------------------


def has_more(message: Any, path: tuple[str, ...], entries: int) -> bool:
    """Whether there are more entries than so many, found out without counting all."""
    name, *below = path
    items = getattr(message, name) or ()
    if len(items) > entries or not below:
        return len(items) > entries
    left = entries
    for item in items:
        left -= count_of(item, tuple(below)) or 1
        if left < 0:
            return True
    return False


def count_of(message: Any, path: tuple[str, ...]) -> int:
    """How many entries there are; an item without any counts as one."""
    items = getattr(message, path[0]) or ()
    if len(path) == 1:
        return len(items)
    return sum(count_of(item, path[1:]) or 1 for item in items)


def split(request: T, path: tuple[str, ...], entries: int, *, others: Sequence[str] = ()) -> Iterator[Piece]:
    """Requests with at most so many entries each; the lists `others` are empty in them."""
    name, *below = path
    emptied: dict[str, list[Any]] = {other: [] for other in others}
    for items, goes_on in _split(getattr(request, name) or (), tuple(below), entries):
        yield replace(request, **{**emptied, name: items}), goes_on  # type: ignore[type-var]


def _split(items: Sequence[Any], below: tuple[str, ...], entries: int) -> Iterator[tuple[list[Any], int]]:
    if not below:
        for first in range(0, len(items), entries):
            yield [*items[first : first + entries]], 0
        return
    gathered: list[Any] = []
    room = entries
    for item in items:
        count = count_of(item, below) or 1
        if gathered and count > room:
            yield gathered, 0
            gathered, room = [], entries
        if count > entries:
            parts = _split(getattr(item, below[0]), below[1:], entries)
            for number, (part, goes_on) in enumerate(parts):
                yield [replace(item, **{below[0]: part})], goes_on + 1 if number else 0
        else:
            gathered.append(item)
            room -= count
    if gathered:
        yield gathered, 0


def join(whole: T, more: Any, goes_on: int) -> T:
    """Add a reply to those before it: its first item goes on with their last one at so many levels."""
    for name in _lists_of(type(whole)):  # type: ignore[arg-type]  # a class can be hashed
        added = getattr(more, name)
        if not added:
            continue
        items = getattr(whole, name)
        if not items:
            setattr(whole, name, added)
        elif goes_on and _is_same(items[-1], added[0]):
            join(items[-1], added[0], goes_on - 1)
            items.extend(added[1:])
        else:
            items.extend(added)
    return whole


def _is_same(one: Any, other: Any) -> bool:
    """Whether two items tell of the same thing: all but their lists is equal."""
    lists = _lists_of(type(one))  # type: ignore[arg-type]
    return all(
        getattr(one, spec.name) == getattr(other, spec.name)
        for spec in fields_of(type(one))
        if spec.name not in lists
    )


@cache
def _lists_of(cls: type[Any]) -> tuple[str, ...]:
    return tuple(spec.name for spec in fields_of(cls) if spec.is_array)


# -- the table -----------------------------------------------------------------------------------------------

_EACH_PARTITION: Final = Pieces("topics.partitions")
_SETTINGS: Final = AtMost("resources", "resources.configs")
_SHARE_STATE: Final = Pieces("topics.partitions", in_turn=True)

LONG_REQUESTS: Final[Mapping[ApiKey, Long]] = {
    ApiKey.FETCH: IN_SLICES,
    ApiKey.LIST_OFFSETS: IN_SLICES,
    ApiKey.OFFSET_COMMIT: IN_SLICES,
    ApiKey.FIND_COORDINATOR: Pieces("coordinator_keys", in_turn=True),
    ApiKey.LEAVE_GROUP: Pieces("members", in_turn=True),
    ApiKey.DESCRIBE_GROUPS: Pieces("groups"),
    ApiKey.CREATE_TOPICS: AtMost("topics", "topics.configs", "topics.assignments"),
    ApiKey.DELETE_TOPICS: AtMost("topics", "topic_names", answered=2),
    ApiKey.DELETE_RECORDS: _EACH_PARTITION,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _EACH_PARTITION,
    ApiKey.ADD_PARTITIONS_TO_TXN: IN_SLICES,
    ApiKey.TXN_OFFSET_COMMIT: IN_SLICES,
    ApiKey.CREATE_ACLS: AtMost("creations"),
    ApiKey.DELETE_ACLS: AtMost("filters"),
    ApiKey.ALTER_CONFIGS: _SETTINGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: IN_SLICES,
    ApiKey.CREATE_PARTITIONS: AtMost("topics", "topics.assignments"),
    ApiKey.DELETE_GROUPS: Pieces("groups_names", is_unique=True, in_turn=True),
    ApiKey.ELECT_LEADERS: Pieces("topic_partitions.partitions", entries=DECISION_ENTRIES, in_turn=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _SETTINGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: AtMost("topics.partitions"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Pieces(
        "topics.partition_indexes", entries=DECISION_ENTRIES, in_turn=True
    ),
    ApiKey.OFFSET_DELETE: IN_SLICES,
    ApiKey.ALTER_CLIENT_QUOTAS: AtMost("entries", "entries.ops"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AtMost("deletions", "upsertions", answered=2),
    ApiKey.DESCRIBE_PRODUCERS: Pieces("topics.partition_indexes"),
    ApiKey.DESCRIBE_TRANSACTIONS: Pieces("transactional_ids"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Pieces("group_ids"),
    ApiKey.SHARE_GROUP_DESCRIBE: Pieces("group_ids"),
    ApiKey.SHARE_FETCH: IN_SLICES,
    ApiKey.SHARE_ACKNOWLEDGE: IN_SLICES,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.READ_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _SHARE_STATE,
    ApiKey.STREAMS_GROUP_DESCRIBE: Pieces("group_ids"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Pieces("groups.topics.partitions", in_turn=True),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: IN_SLICES,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: IN_SLICES,
}
"""Kinds that are not here take no list of a stranger, or see to it by themselves (`unless_short`)."""
