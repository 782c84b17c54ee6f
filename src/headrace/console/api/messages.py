"""Records of a topic: pages of them, a live tail, one in full, writing one, and keys at a moment."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, ConsumerRecord, OffsetSpec
from headrace.clients.errors import ClientError, NoSuchTopicError
from headrace.console.cluster_picture import offsets_at
from headrace.console.http_server import ConsoleReply, EventReply, RefusedCallError
from headrace.console.message_filter import MessageFilter, message_filter
from headrace.console.messages import MessagePage, ShownRecord, Span, follow, read_page
from headrace.console.payload import bytes_of, record_json
from headrace.console.record_view import RecordView
from headrace.console.schema_writing import written_by_schema
from headrace.console.time_travel import KeysAtMoment, travel
from headrace.console.visit import Visit

PAGE_RECORDS: Final = 50
PAGE_RECORDS_MAX: Final = 500
READ_S: Final = 10.0
PAGE_WAIT_MS: Final = 10
"""A page reads what is there; a fetch ahead of it, at the end, would hold up the next one on its way."""
TAIL_WAIT_MS: Final = 500
KEYS_SHOWN_MAX: Final = 2_000
FORMS: Final = ("newest", "oldest", "offset", "time")


async def messages(visit: Visit) -> Any:
    """A page. `from` says where to begin, `at` where the page before has ended."""
    wanted = message_filter(visit.request.query, visit.view_of(visit.arguments["topic"]))
    limit = visit.query_int("limit", PAGE_RECORDS, least=1, most=PAGE_RECORDS_MAX)
    committed = _is_committed(visit)
    spans = await _spans(visit, committed=committed)
    form = visit.request.query.get("from", "newest")
    if form not in FORMS:
        raise RefusedCallError(400, f"from={form!r} is none of {', '.join(FORMS)}")
    is_backward = form == "newest"
    positions = await _positions(visit, spans, form)
    async with visit.reading.pages, _consumer(visit, committed=committed) as consumer:
        page = await read_page(consumer, spans, positions, wanted, limit=limit, is_backward=is_backward)
    return {
        **await _page_json(page, wanted.view),
        "is_done": page.is_done,
        "at": ",".join(f"{each.partition}:{offset}" for each, offset in page.positions.items()),
        "spans": {str(each.partition): [span.start, span.end] for each, span in spans.items()},
    }


def _is_committed(visit: Visit) -> bool:
    return visit.request.query.get("isolation") == "read_committed"


def _consumer(visit: Visit, *, committed: bool, wait_ms: int = PAGE_WAIT_MS) -> AsyncConsumer:
    return visit.connection.consumer(
        isolation_level="read_committed" if committed else "read_uncommitted",
        max_poll_records=2_000,
        fetch_max_wait_ms=wait_ms,
    )


async def _page_json(page: MessagePage, view: RecordView) -> dict[str, Any]:
    return {"records": await _records_json(page.records, view), "scanned": page.scanned}


async def _records_json(records: Sequence[ShownRecord], view: RecordView) -> list[dict[str, Any]]:
    await view.learn([each.record for each in records])
    return [record_json(each, view) for each in records]


async def _spans(visit: Visit, *, committed: bool) -> dict[TopicPartition, Span]:
    """Where the chosen partitions begin and end now."""
    name = visit.arguments["topic"]
    [described] = await visit.admin.describe_topics(name)
    places = [TopicPartition(name, each.number) for each in described.partitions]
    if visit.request.query.get("partition", ""):
        number = visit.query_int("partition", 0)
        places = [each for each in places if each.partition == number]
        if not places:
            raise RefusedCallError(404, f"topic {name!r} has no partition {number}")
    ends = await offsets_at(visit.admin, places, OffsetSpec.LATEST, committed=committed)
    starts = await offsets_at(visit.admin, places, OffsetSpec.EARLIEST)
    found = {each: Span(starts[each], ends[each]) for each in places if each in starts and each in ends}
    if places and not found:
        raise RefusedCallError(503, f"no partition of {name!r} has a leader that answers")
    return found


async def _positions(visit: Visit, spans: dict[TopicPartition, Span], form: str) -> dict[TopicPartition, int]:
    given = visit.request.query.get("at", "")
    if given:
        return _positions_at(given, spans)
    if form == "newest":
        return {each: span.end for each, span in spans.items()}
    if form == "offset":
        offset = visit.query_int("offset", 0, least=-(1 << 62))
        return {each: offset if offset >= 0 else span.end + offset for each, span in spans.items()}
    if form == "time":
        found = await offsets_at(visit.admin, spans, visit.query_int("time", 0))
        # Where all records are older, the next one to come is the first that is not.
        return {each: span.end if found.get(each, -1) < 0 else found[each] for each, span in spans.items()}
    return {each: span.start for each, span in spans.items()}


def _positions_at(text: str, spans: dict[TopicPartition, Span]) -> dict[TopicPartition, int]:
    try:
        pairs = dict(part.split(":") for part in text.split(","))
        return {each: int(pairs[str(each.partition)]) for each in spans}
    except (ValueError, KeyError):
        raise RefusedCallError(400, f"at={text!r} is no place: load the page again") from None


async def tail(visit: Visit) -> EventReply:
    """What comes from now on, as events."""
    wanted = message_filter(visit.request.query, visit.view_of(visit.arguments["topic"]))
    committed = _is_committed(visit)
    starts = {each: span.end for each, span in (await _spans(visit, committed=committed)).items()}
    visit.reading.check_stream()
    consumer = _consumer(visit, committed=committed, wait_ms=TAIL_WAIT_MS)

    async def events() -> AsyncGenerator[Any, None]:
        with visit.reading.stream():
            try:
                yield {"started": {str(each.partition): offset for each, offset in starts.items()}}
                async with aclosing(follow(consumer, starts, wanted)) as pages:
                    async for page in pages:
                        yield await _page_json(page, wanted.view) if page.scanned else None
            finally:
                await consumer.close()

    return EventReply(events())


async def message_value(visit: Visit) -> ConsoleReply:
    """A record's value, or key, as its bytes are: to be saved, never to be shown by the browser. Of one of
    which something is hidden, what is left of it."""
    place = TopicPartition(visit.arguments["topic"], visit.query_int("partition", 0))
    offset = visit.query_int("offset", 0)
    part = visit.request.query.get("part", "value")
    if part not in ("key", "value"):
        raise RefusedCallError(400, f"part={part!r} is neither key nor value")
    record = await read_record(visit, place, offset)
    view = visit.view_of(place.topic)
    await view.learn([record])
    seen = view.part(part, record.key if part == "key" else record.value, record.headers)
    data = b"" if seen is None else seen.searched()
    name = f"{place.partition}-{offset}.{'key' if part == 'key' else 'value'}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return ConsoleReply(200, data, "application/octet-stream", headers)


async def read_record(visit: Visit, place: TopicPartition, offset: int) -> ConsumerRecord:
    """One record in full; RefusedCallError where it is not there any more."""
    async with _consumer(visit, committed=False) as consumer:
        if place not in await consumer.partitions_for(place.topic):
            raise NoSuchTopicError(str(place))
        consumer.assign([place])
        consumer.seek(place, offset)
        rows = await consumer.poll(READ_S, max_records=1)
    if not rows or rows[0].offset != offset:
        raise RefusedCallError(404, f"there is no record at offset {offset} of {place} any more")
    return rows[0]


async def produce(visit: Visit) -> Any:
    """Write one record."""
    body = visit.request.json()
    topic = visit.arguments["topic"]
    partition = body.get("partition")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool)):
        raise RefusedCallError(400, "'partition' must be a whole number or null")
    headers = body.get("headers", [])
    if not isinstance(headers, list) or not all(isinstance(each, dict) for each in headers):
        raise RefusedCallError(400, "'headers' must be a list of objects")
    delivery = await visit.connection.producer().send(
        topic,
        await _bytes_of(visit, body.get("value"), "value"),
        key=await _bytes_of(visit, body.get("key"), "key"),
        partition=partition,
        headers=tuple((str(each.get("name", "")), bytes_of(each.get("value"), "header")) for each in headers),
    )
    written = await delivery
    visit.details |= {"partition": written.partition, "offset": written.offset}
    visit.watch.changed()
    return {"partition": written.partition, "offset": written.offset}


async def _bytes_of(visit: Visit, given: Any, name: str) -> bytes | None:
    """Also {"json": …, "schema": …}: a document that is written by a schema of the registry."""
    if isinstance(given, dict) and "json" in given:
        return await written_by_schema(visit.connection.registry, given, name)
    return bytes_of(given, name)


async def keys_at(visit: Visit) -> EventReply:
    """Time travel, as far as it was committed: how far the reading has got, and in the end the keys."""
    moment_ms = visit.query_int("time", 0)
    spans = await _spans(visit, committed=True)
    found = await offsets_at(visit.admin, spans, moment_ms + 1)
    upto = {
        each: Span(span.start, span.end if found.get(each, -1) < 0 else min(span.end, found[each]))
        for each, span in spans.items()
    }
    wanted = message_filter(visit.request.query, visit.view_of(visit.arguments["topic"]))
    visit.reading.check_stream()
    return EventReply(_keys(visit, upto, wanted, moment_ms))


async def _keys(
    visit: Visit, spans: dict[TopicPartition, Span], wanted: MessageFilter, moment_ms: int
) -> AsyncGenerator[Any, None]:
    total = sum(span.end - span.start for span in spans.values())
    seen = KeysAtMoment(moment_ms)
    yield {"scanned": 0, "total": total, "found": 0}
    try:
        with visit.reading.stream():
            async with (
                _consumer(visit, committed=True) as consumer,
                aclosing(travel(consumer, spans, wanted, moment_ms)) as pieces,
            ):
                async for seen in pieces:
                    yield {"scanned": seen.scanned, "total": total, "found": len(seen.latest)}
        alive = seen.alive()
        yield {
            "records": await _records_json(alive[-KEYS_SHOWN_MAX:], wanted.view),
            "keys": len(alive),
            "deleted": len(seen.latest) - len(alive),
            "scanned": seen.scanned,
            "is_full": not seen.is_done,
        }
    except ClientError as error:
        yield {"error": str(error)}
