"""A made-up company's services and the people who use them, as records: logs, sessions, users.

A session belongs to a user and is a run of requests; each request is a log line of one service, with a
level, a status and a latency. Services differ in how busy, how slow and how fallible they are, and every
now and then one has an incident: for a while it is slow and fails often. Log lines arrive a little late
and out of order, as those of real log shippers do.

All chance comes from the `random.Random` that is handed in: the same seed and the same times give the same
records. What the pipeline must make of them is kept in an `InputLedger` on the way. `Feeder` writes them to
the cluster.
"""

import json
import random
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from headrace.spark.demo.feeds import LATE_MS_MAX, LOGS, MINUTE_MS, SESSIONS, USERS, WATERMARK_MS


class ServiceEvent(NamedTuple):
    """A record for a feed."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int


class User(NamedTuple):
    id: str
    name: str
    plan: str
    country: str


class Service(NamedTuple):
    """`busy` is its share of requests, `latency_ms` its usual one, `failing` its share of errors."""

    name: str
    busy: int
    latency_ms: float
    failing: float
    paths: tuple[str, ...]


SERVICES: Final = (
    Service("edge", 30, 9, 0.002, ("/", "/login", "/logout")),
    Service("catalog", 25, 28, 0.004, ("/products", "/products/{id}", "/categories")),
    Service("search", 18, 64, 0.010, ("/search", "/suggest")),
    Service("cart", 12, 22, 0.006, ("/cart", "/cart/items")),
    Service("checkout", 8, 140, 0.020, ("/checkout", "/checkout/confirm")),
    Service("payments", 5, 310, 0.035, ("/pay", "/refund")),
    Service("mailer", 2, 480, 0.050, ("/send",)),
)
NAMES: Final = (
    "Ada",
    "Alan",
    "Barbara",
    "Dennis",
    "Edsger",
    "Frances",
    "Grace",
    "Jean",
    "John",
    "Ken",
    "Leslie",
)
PLANS: Final = ("free", "pro", "team")
COUNTRIES: Final = ("BR", "DE", "FR", "IN", "JP", "KE", "NG", "US")
DEVICES: Final = ("android", "browser", "ios", "tablet")
FAILURES: Final = ("upstream timed out", "connection reset by peer", "out of stock lock", "deadlock, gave up")

_USERS_AT_START: Final = 200
_SESSIONS_OPEN_MAX: Final = 500
# Chances for each log line.
_NEW_SESSION: Final = 1 / 20
_NEW_USER: Final = 1 / 500
_INCIDENT: Final = 1 / 4000
_INCIDENT_MS: Final = 8_000
_INCIDENT_FAILING: Final = 0.4


@dataclass(slots=True)
class InputLedger:
    """What went in, and so what has to come out."""

    logs: int = 0
    users: dict[str, User] = field(default_factory=dict)
    # The user of each session; its place in the list is the session's number.
    sessions: list[str] = field(default_factory=list)
    # (service, start of the minute in ms) -> errors
    errors: Counter[tuple[str, int]] = field(default_factory=Counter)


class Company:
    """Invents events, one after the other."""

    def __init__(self, rng: random.Random) -> None:
        self.ledger = InputLedger()
        self._rng = rng
        self._open: list[str] = []
        self._broken: Service | None = None
        self._mended_at_ms = 0

    def open_for_business(self, now_ms: int) -> Iterator[ServiceEvent]:
        """The first users; nobody has a session yet."""
        for _ in range(_USERS_AT_START):
            yield self._sign_up(now_ms)

    def happen(self, now_ms: int) -> Iterator[ServiceEvent]:
        """A log line, and the session or user that begins with it."""
        if self._rng.random() < _NEW_USER:
            yield self._sign_up(now_ms)
        if not self._open or self._rng.random() < _NEW_SESSION:
            yield self._begin_session(now_ms)
        yield self._log_line(now_ms)

    def close(self, now_ms: int) -> ServiceEvent:
        """The last log line. It is stamped past the end of the minute, so that the watermark closes it."""
        at_ms = (now_ms // MINUTE_MS + 1) * MINUTE_MS + WATERMARK_MS + 1_000
        line = {"service": SERVICES[0].name, "level": "INFO", "message": "closing time"}
        return self._write(line, at_ms)

    def _sign_up(self, now_ms: int) -> ServiceEvent:
        rng, users = self._rng, self.ledger.users
        user = User(f"u-{len(users)}", rng.choice(NAMES), rng.choice(PLANS), rng.choice(COUNTRIES))
        users[user.id] = user
        return ServiceEvent(USERS, user.id.encode(), _encoded({**user._asdict(), "since_ms": now_ms}), now_ms)

    def _begin_session(self, now_ms: int) -> ServiceEvent:
        number = len(self.ledger.sessions)
        user = f"u-{self._rng.randrange(len(self.ledger.users))}"
        self.ledger.sessions.append(user)
        session = f"s-{number}"
        if len(self._open) == _SESSIONS_OPEN_MAX:
            self._open[self._rng.randrange(_SESSIONS_OPEN_MAX)] = session
        else:
            self._open.append(session)
        value = {"session": number, "user": user, "device": self._rng.choice(DEVICES), "started_ms": now_ms}
        return ServiceEvent(SESSIONS, user.encode(), _encoded(value), now_ms)

    def _log_line(self, now_ms: int) -> ServiceEvent:
        rng = self._rng
        (service,) = rng.choices(SERVICES, [each.busy for each in SERVICES])
        session = rng.choice(self._open)
        fails = rng.random() < self._failing(service, now_ms)
        is_slow = service is self._broken
        latency_ms = rng.lognormvariate(0, 0.5) * service.latency_ms * (6 if is_slow else 1)
        status = 503 if fails else 404 if rng.random() < 0.01 else 200
        line = {
            "service": service.name,
            "level": "ERROR" if fails else "WARN" if status == 404 or latency_ms > 1000 else "INFO",
            "status": status,
            "latency_ms": round(latency_ms, 1),
            "path": rng.choice(service.paths),
            "session": session,
            "user": self.ledger.sessions[int(session[2:])],
            "message": rng.choice(FAILURES) if fails else "handled",
        }
        late_ms = min(int(rng.expovariate(1 / 150)), LATE_MS_MAX)
        return self._write(line, now_ms - late_ms)

    def _failing(self, service: Service, now_ms: int) -> float:
        if self._broken is None and self._rng.random() < _INCIDENT:
            (self._broken,) = self._rng.choices(SERVICES, [each.busy for each in SERVICES])
            self._mended_at_ms = now_ms + _INCIDENT_MS
        elif now_ms >= self._mended_at_ms:
            self._broken = None
        return _INCIDENT_FAILING if service is self._broken else service.failing

    def _write(self, line: Mapping[str, object], at_ms: int) -> ServiceEvent:
        number = self.ledger.logs
        self.ledger.logs += 1
        if line["level"] == "ERROR":
            self.ledger.errors[str(line["service"]), at_ms // MINUTE_MS * MINUTE_MS] += 1
        value = _encoded({"number": number, "at_ms": at_ms, **line})
        return ServiceEvent(LOGS, str(line.get("session", "")).encode(), value, at_ms)


def _encoded(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class PendingDelivery(Protocol):
    """A record's fate, as `Producer.send` gives it."""

    def done(self) -> bool: ...

    def result(self) -> object: ...


class RecordSender(Protocol):
    """The part of a producer that is needed here."""

    def send(self, topic: str, value: bytes, *, key: bytes, timestamp_ms: int) -> PendingDelivery: ...

    def flush(self) -> None: ...


class Feeder:
    """Writes events at a steady pace: `write_due` is called often, `close` once.

    Records are due by the clock: after a pause what has become due is written at once. Every one is known to
    be acknowledged: a record that the cluster does not take within `delivery.timeout.ms` ends the
    demonstration, since nobody could say any more what has to come out.
    """

    def __init__(self, producer: RecordSender, company: Company, *, per_second: int, started_ms: int) -> None:
        self.written: Counter[str] = Counter()
        self._producer = producer
        self._company = company
        self._per_second = per_second
        self._started_ms = started_ms
        self._lines = 0
        self._pending: deque[PendingDelivery] = deque()

    def open(self, now_ms: int) -> None:
        """Users come first, so that each session finds its own."""
        self._send(self._company.open_for_business(now_ms))
        self._confirm_all()

    def write_due(self, elapsed_ms: int) -> None:
        due = elapsed_ms * self._per_second // 1000
        while self._lines < due:
            # The time at which this one was due: after a pause events do not all happen at once.
            now_ms = self._started_ms + self._lines * 1000 // self._per_second
            self._send(self._company.happen(now_ms))
            self._lines += 1
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()

    def close(self, elapsed_ms: int) -> None:
        """Write the last record, and wait for all acknowledgements."""
        self._send([self._company.close(self._started_ms + elapsed_ms)])
        self._confirm_all()

    def _send(self, events: Iterable[ServiceEvent]) -> None:
        for topic, key, value, timestamp_ms in events:
            self._pending.append(self._producer.send(topic, value, key=key, timestamp_ms=timestamp_ms))
            self.written[topic] += 1

    def _confirm_all(self) -> None:
        self._producer.flush()
        while self._pending:
            self._pending.popleft().result()
