"""What `headrace top` tells of a cluster: rows of its pages, with rates between two looks.

A rate is None where there is nothing to compare with: at the first look, and after a restart.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from headrace.base.ids import TopicPartition
from headrace.cli.top_looking import GroupLook, Look, Scrape

_TOPIC_METRICS: Final = "kafka_server_brokertopicmetrics_"
_REQUEST_METRICS: Final = "kafka_network_requestmetrics_"
_P99: Final = 0.99


class BrokerRow(NamedTuple):
    """A broker; what comes behind `free_bytes` is known where its /metrics are."""

    broker: int
    address: str
    rack: str | None
    state: str  # up, controller, fenced
    leaders: int
    replicas: int
    under_replicated: int
    records_in_per_s: float | None
    size_bytes: int | None
    free_bytes: int | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    requests_per_s: float | None
    busy: float | None
    memory_bytes: float | None
    connections: float | None


class TopicRow(NamedTuple):
    """A topic; `size_bytes` is what its leaders have on disk."""

    topic: str
    internal: bool
    partitions: int
    replicas: int
    under_replicated: int
    offline: int
    end_offsets: int
    records_in_per_s: float | None
    size_bytes: int | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None


class GroupRow(NamedTuple):
    """A group; its lag is the sum over the partitions that it has committed, or what a share group tells."""

    group: str
    type: str
    state: str
    coordinator: int
    members: int | None
    partitions: int
    lag: int | None
    records_per_s: float | None
    seconds_behind: float | None


class RequestRow(NamedTuple):
    """A kind of request, over all brokers whose /metrics are known.

    Times and sizes are of the interval, or since the start where none was measured in it: one in sixteen is.
    `average_ms` and `p99_ms` are the node's own work, `total_ms` has all waiting in it too, on average.
    """

    request: str
    total: int
    per_s: float | None
    average_ms: float | None
    p99_ms: float | None
    total_ms: float | None
    average_bytes: float | None
    errors_per_s: float | None


class Figures(NamedTuple):
    """All pages."""

    look: Look
    brokers: list[BrokerRow]
    topics: list[TopicRow]
    groups: list[GroupRow]
    requests: list[RequestRow]

    def as_json(self) -> dict[str, object]:
        return {
            "time_ms": self.look.time_ms,
            "cluster_id": self.look.cluster.cluster_id,
            "controller_id": self.look.cluster.controller_id,
            "notes": self.look.notes,
            "brokers": [each._asdict() for each in self.brokers],
            "topics": [each._asdict() for each in self.topics],
            "groups": [each._asdict() for each in self.groups],
            "requests": [each._asdict() for each in self.requests],
        }


def figures(look: Look, before: Look | None, groups_before: Sequence[GroupLook] = ()) -> Figures:
    """The rows of a look, with rates since the one before it; those of groups since `groups_before`, where
    given: consumers commit every five seconds."""
    grown = _grown_ends(look, before)
    return Figures(
        look,
        _broker_rows(look, before, grown),
        _topic_rows(look, before, grown),
        _group_rows(look, groups_before or (() if before is None else before.groups)),
        _request_rows(look, before),
    )


def _grown_ends(look: Look, before: Look | None) -> dict[TopicPartition, float] | None:
    """Records a second of each partition. One that was made anew grows from its beginning."""
    if before is None or look.ends_at_s <= before.ends_at_s:
        return None
    passed_s = look.ends_at_s - before.ends_at_s
    return {where: max(end - before.ends.get(where, end), 0) / passed_s for where, end in look.ends.items()}


def _broker_rows(
    look: Look, before: Look | None, grown: dict[TopicPartition, float] | None
) -> list[BrokerRow]:
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    replicas: dict[int, int] = defaultdict(int)
    lacking: dict[int, int] = defaultdict(int)
    for topic in look.topics:
        for each in topic.partitions:
            led[each.leader].append(TopicPartition(topic.name, each.number))
            lacking[each.leader] += each.is_under_replicated
            for replica in each.replicas:
                replicas[replica] += 1
    rows = []
    for broker in look.cluster.brokers:
        number = broker.node_id
        own = [each for each in look.folders if each.node_id == number]
        up = "controller" if number == look.cluster.controller_id else "up"
        rows.append(
            BrokerRow(
                broker=number,
                address=f"{broker.host}:{broker.port}",
                rack=broker.rack,
                state="fenced" if broker.fenced else up,
                leaders=len(led[number]),
                replicas=replicas[number],
                under_replicated=lacking[number],
                records_in_per_s=None if grown is None else sum(grown.get(each, 0.0) for each in led[number]),
                size_bytes=sum(sum(each.partitions.values()) for each in own) if own else None,
                free_bytes=min((each.usable_bytes for each in own if each.usable_bytes >= 0), default=None),
                **_of_process(*_scrapes_of(number, look, before)),
            )
        )
    return rows


def _scrapes_of(node_id: int, look: Look, before: Look | None) -> tuple[Scrape | None, Scrape | None]:
    for scrape in look.scrapes:
        if scrape.node_id == node_id:
            return scrape, _same(scrape, before)
    return None, None


def _of_process(now: Scrape | None, then: Scrape | None) -> dict[str, float | None]:
    def rate(name: str) -> float | None:
        return _rate(now, then, lambda scrape: scrape.total(name, "topic", ""))

    idle = None if now is None else now.one("kafka_network_socketserver_networkprocessoravgidle_percent")
    return {
        "bytes_in_per_s": rate(f"{_TOPIC_METRICS}bytesin_total"),
        "bytes_out_per_s": rate(f"{_TOPIC_METRICS}bytesout_total"),
        "requests_per_s": _rate(now, then, lambda scrape: scrape.one(f"{_REQUEST_METRICS}requests_total")),
        "busy": None if idle is None else 1 - idle,
        "memory_bytes": None if now is None else now.one("process_resident_memory_bytes"),
        "connections": None
        if now is None
        else now.one("kafka_server_socket_server_metrics_connection_count"),
    }


def _rate(now: Scrape | None, then: Scrape | None, value: Callable[[Scrape], float | None]) -> float | None:
    """Growth a second; None where a process was started anew in between."""
    if now is None or then is None or now.at_s <= then.at_s:
        return None
    new, old = value(now), value(then)
    if new is None or old is None or new < old:
        return None
    return (new - old) / (now.at_s - then.at_s)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def _topic_rows(look: Look, before: Look | None, grown: dict[TopicPartition, float] | None) -> list[TopicRow]:
    sizes = {(each.node_id, where): size for each in look.folders for where, size in each.partitions.items()}
    pairs = [(scrape, _same(scrape, before)) for scrape in look.scrapes]
    rows = []
    for topic in look.topics:
        places = [TopicPartition(topic.name, each.number) for each in topic.partitions]
        known = [
            sizes[each.leader, where]
            for each, where in zip(topic.partitions, places, strict=True)
            if (each.leader, where) in sizes
        ]

        def rate(name: str, topic_name: str = topic.name) -> float | None:
            read = [
                _rate(now, then, lambda scrape: scrape.total(name, "topic", topic_name))
                for now, then in pairs
            ]
            return _sum(read)

        rows.append(
            TopicRow(
                topic=topic.name,
                internal=topic.internal,
                partitions=len(topic.partitions),
                replicas=max((len(each.replicas) for each in topic.partitions), default=0),
                under_replicated=sum(each.is_under_replicated for each in topic.partitions),
                offline=sum(each.leader < 0 for each in topic.partitions),
                end_offsets=sum(look.ends.get(each, 0) for each in places),
                records_in_per_s=None if grown is None else sum(grown.get(each, 0.0) for each in places),
                size_bytes=sum(known) if known else None,
                bytes_in_per_s=rate(f"{_TOPIC_METRICS}bytesin_total"),
                bytes_out_per_s=rate(f"{_TOPIC_METRICS}bytesout_total"),
            )
        )
    return rows


def _group_rows(look: Look, before: Sequence[GroupLook]) -> list[GroupRow]:
    earlier = {each.listing.group_id: each for each in before}
    rows = []
    for each in look.groups:
        lags = [
            max(look.ends[where] - offset, 0) for where, offset in each.offsets.items() if where in look.ends
        ]
        lag = each.lag if each.lag is not None else sum(lags) if lags else None
        speed = _speed(each, earlier.get(each.listing.group_id))
        rows.append(
            GroupRow(
                group=each.listing.group_id,
                type=each.listing.type,
                state=each.listing.state,
                coordinator=each.listing.coordinator,
                members=each.members,
                partitions=len(each.offsets),
                lag=lag,
                records_per_s=speed,
                seconds_behind=lag / speed if lag is not None and speed else None,
            )
        )
    return rows


def _speed(now: GroupLook, then: GroupLook | None) -> float | None:
    """Records a second that a group has committed. Offsets that were set back count for nothing."""
    if then is None or not then.at_s or now.at_s <= then.at_s:
        return None
    moved = sum(max(offset - then.offsets.get(where, offset), 0) for where, offset in now.offsets.items())
    return moved / (now.at_s - then.at_s)


def _request_rows(look: Look, before: Look | None) -> list[RequestRow]:
    """Summed over brokers."""
    kinds = {
        labels["request"]
        for scrape in look.scrapes
        for labels, _ in scrape.samples.get(f"{_REQUEST_METRICS}requests_total", ())
    }
    pairs = [(scrape, _same(scrape, before)) for scrape in look.scrapes]
    return [_request_row(kind, pairs) for kind in sorted(kinds)]


def _same(scrape: Scrape, before: Look | None) -> Scrape | None:
    found = () if before is None else [each for each in before.scrapes if each.url == scrape.url]
    return found[0] if found else None


_Pairs = list[tuple[Scrape, Scrape | None]]


def _request_row(kind: str, pairs: _Pairs) -> RequestRow:
    def per_s(name: str) -> float | None:
        return _sum(
            _rate(now, then, lambda scrape: scrape.total(name, "request", kind) or 0.0) for now, then in pairs
        )

    requests = f"{_REQUEST_METRICS}requests_total"
    sampled = _grown(f"{_REQUEST_METRICS}localtimems_count", kind, pairs)
    measured: _Pairs = pairs if sampled else [(now, None) for now, _ in pairs]
    return RequestRow(
        request=kind,
        total=int(sum(now.total(requests, "request", kind) or 0 for now, _ in pairs)),
        per_s=per_s(requests),
        average_ms=_average("localtimems", kind, measured),
        p99_ms=_p99_ms(kind, measured),
        total_ms=_average("totaltimems", kind, measured),
        average_bytes=_average("requestbytes", kind, measured),
        errors_per_s=per_s(f"{_REQUEST_METRICS}errors_total"),
    )


def _grown(name: str, kind: str, pairs: _Pairs) -> float:
    """Since the look before it; since its start for a process that was started anew, or is new here."""
    total = 0.0
    for now, then in pairs:
        new = now.total(name, "request", kind) or 0.0
        old = 0.0 if then is None else then.total(name, "request", kind) or 0.0
        total += new - old if new >= old else new
    return total


def _average(histogram: str, kind: str, pairs: _Pairs) -> float | None:
    count = _grown(f"{_REQUEST_METRICS}{histogram}_count", kind, pairs)
    return _grown(f"{_REQUEST_METRICS}{histogram}_sum", kind, pairs) / count if count else None


def _p99_ms(kind: str, pairs: _Pairs) -> float | None:
    """The bound of the histogram that 99 of 100 requests kept."""
    counts: dict[float, float] = defaultdict(float)
    for now, then in pairs:
        for scrape, sign in ((now, 1), (then, -1)):
            rows = () if scrape is None else scrape.samples.get(f"{_REQUEST_METRICS}localtimems_bucket", ())
            for labels, value in rows:
                if labels.get("request") == kind:
                    counts[float(labels["le"])] += sign * value
    total = max(counts.values(), default=0.0)
    if total <= 0:
        return None
    bounds = [bound for bound in sorted(counts) if counts[bound] >= _P99 * total]
    return bounds[0] if bounds and bounds[0] != float("inf") else None
