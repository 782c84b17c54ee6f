"""Which quota binds a client, and how far it is used (Kafka's ClientQuotaManager and its kin).

A quota is set for a user, a client id or both, each by its name or as a default. Of those that fit a client
the most specific counts, in Kafka's order (`LEVELS`). Clients that are bound by a user's quota share it; one
that names a client id is had by each of its connections' ids alone.

A client that used too much is not refused: it is told for how long it must wait, and until then nothing is
read from it. That time brings the average of the last windows back to the limit. Topic changes are counted
by a bucket instead (KIP-599), so that a burst after a pause is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import nlargest
from typing import Final, Generic, NamedTuple, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.rates import SampledRate, TokenBucket, Windows
from headrace.metadata.client_quotas import CLIENT_ID, USER, Entity

ABSENT: Final = ""
"""In place of a user or client id that a quota does not name: Kafka refuses quotas for empty names."""

_NAMED, _DEFAULT, _ANY = range(3)

LEVELS: Final = (
    (_NAMED, _NAMED),
    (_NAMED, _DEFAULT),
    (_NAMED, _ANY),
    (_DEFAULT, _NAMED),
    (_DEFAULT, _DEFAULT),
    (_DEFAULT, _ANY),
    (_ANY, _NAMED),
    (_ANY, _DEFAULT),
)
"""How a quota names user and client id, the most specific first."""

SENSORS_SWEPT_AT: Final = 1000
"""So many are kept before those that remember nothing are looked for."""


class BindingQuota(NamedTuple):
    """A limit, and who shares it: the user and the client id that it is measured for."""

    limit: float
    user: str
    client_id: str


class QuotaTable:
    """The quotas of one kind, as the image has them."""

    def __init__(self, quotas: Mapping[Entity, float]) -> None:
        self._limits: dict[tuple[str | None, str | None], float] = {}
        for entity, limit in quotas.items():
            names = dict(entity)
            if USER in names or CLIENT_ID in names:
                self._limits[names.get(USER, ABSENT), names.get(CLIENT_ID, ABSENT)] = limit

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client_id: str) -> BindingQuota | None:
        """The quota that binds this client."""
        users, clients = (user, None, ABSENT), (client_id, None, ABSENT)
        for by_user, by_client in LEVELS:
            limit = self._limits.get((users[by_user], clients[by_client]))
            # A client without an id is no client of that name: the defaults bind it.
            if limit is None or (by_client == _NAMED and not client_id) or (by_user == _NAMED and not user):
                continue
            return BindingQuota(
                limit, ABSENT if by_user == _ANY else user, ABSENT if by_client == _ANY else client_id
            )
        return None


class ThrottleTime:
    """For how long some clients were told to wait, on the average of the last windows."""

    __slots__ = ("_count", "_ms")

    def __init__(self, windows: Windows) -> None:
        self._ms = SampledRate(windows)
        self._count = SampledRate(windows)

    def note(self, throttle_ms: int, now_ms: int) -> None:
        self._ms.record(throttle_ms, now_ms)
        self._count.record(1, now_ms)

    def average_ms(self, now_ms: int) -> float:
        """0 where nobody was."""
        count = self._count.rate(now_ms)
        return self._ms.rate(now_ms) / count if count else 0.0


class ClientSensor:
    """What some clients used together, and their limit: as Kafka's Rate."""

    __slots__ = ("_rate", "limit", "throttle_time")

    def __init__(self, windows: Windows) -> None:
        self._rate = SampledRate(windows)
        self.throttle_time = ThrottleTime(windows)
        self.limit = 0.0

    def record(self, value: float, now_ms: int, *, throttle_ms_max: int | None = None) -> int:
        """So much is used; for how long these clients must wait (0: not at all)."""
        self._rate.record(value, now_ms)
        throttle_ms = self._rate.throttle_ms(self.limit, now_ms)
        if throttle_ms <= 0:
            return 0
        if throttle_ms_max is not None:
            throttle_ms = min(throttle_ms, throttle_ms_max)
        self.throttle_time.note(throttle_ms, now_ms)
        return throttle_ms

    def rate(self, now_ms: int) -> float:
        """Used in a second."""
        return self._rate.rate(now_ms)

    def take_back(self, value: float, now_ms: int) -> None:
        """It was recorded, and is not used after all."""
        self._rate.record(-value, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        return self._rate.is_idle(now_ms)


class MutationSensor:
    """Partitions that some clients made or removed, and how many they may in a second."""

    __slots__ = ("_bucket", "_rate", "limit", "throttle_time")

    def __init__(self, windows: Windows) -> None:
        self._bucket = TokenBucket(windows)
        self._rate = SampledRate(windows)  # only told
        self.throttle_time = ThrottleTime(windows)
        self.limit = 0.0

    def take(self, partitions: int, now_ms: int) -> None:
        self._bucket.take(partitions, self.limit, now_ms)
        self._rate.record(partitions, now_ms)

    def rate(self, now_ms: int) -> float:
        """Partitions in a second."""
        return self._rate.rate(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        return self._bucket.throttle_ms(self.limit, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        return self._bucket.is_full(self.limit, now_ms)


Sensor = TypeVar("Sensor", ClientSensor, MutationSensor)


class ClientQuotaManager(Generic[Sensor]):
    """The quotas of one kind, and the sensors of the clients that they bind."""

    def __init__(
        self,
        windows: Windows,
        new_sensor: Callable[[Windows], Sensor],
        now_ms: Callable[[], int],
    ) -> None:
        self.windows = windows
        self._new_sensor: Callable[[Windows], Sensor] = new_sensor
        self._now_ms = now_ms
        self._table = QuotaTable({})
        self._sensors: dict[tuple[str, str], Sensor] = {}
        self._found: dict[tuple[str, str], Sensor | None] = {}
        self._swept_at = SENSORS_SWEPT_AT

    @property
    def is_set(self) -> bool:
        """Whether anybody is bound at all."""
        return bool(self._table)

    def follow(self, quotas: Mapping[Entity, float]) -> None:
        """Other quotas hold from now on; what was measured stays."""
        self._table = QuotaTable(quotas)
        self._found.clear()

    def sensor_of(self, principal: str, client_id: str | None) -> Sensor | None:
        """What this client's use is measured by; None where nothing binds it."""
        key = principal, client_id or ""
        try:
            return self._found[key]
        except KeyError:
            return self._find(key)

    def busiest(self, count: int) -> list[tuple[str, str, Sensor]]:
        """Users and client ids that a quota binds, with what they are measured by: of those that used
        anything in the last windows, so many that used most."""
        now_ms = self._now_ms()
        used = [item for item in self._sensors.items() if not item[1].is_idle(now_ms)]
        found = nlargest(count, used, key=lambda item: item[1].rate(now_ms))
        return [(user, client_id, sensor) for (user, client_id), sensor in found]

    def _find(self, key: tuple[str, str]) -> Sensor | None:
        if len(self._found) >= self._swept_at:
            self._sweep()
        bound = self._table.find(key[0].partition(":")[2], key[1])
        sensor: Sensor | None = None
        if bound is not None:
            shared = bound.user, bound.client_id
            sensor = self._sensors.get(shared)
            if sensor is None:
                sensor = self._sensors[shared] = self._new_sensor(self.windows)
            sensor.limit = bound.limit
        self._found[key] = sensor
        return sensor

    def _sweep(self) -> None:
        """Names are the clients' choice, so any number of them may come. Those that remember nothing go."""
        now_ms = self._now_ms()
        self._found.clear()
        self._sensors = {key: each for key, each in self._sensors.items() if not each.is_idle(now_ms)}
        self._swept_at = max(SENSORS_SWEPT_AT, 2 * len(self._sensors))


class ControllerMutationQuota:
    """One request's changes of partitions against its client's quota (KIP-599).

    A strict one refuses what comes while the bucket is below nothing, with THROTTLING_QUOTA_EXCEEDED; that
    is for versions of requests whose clients know the error. Others are let do it and told to wait.
    """

    def __init__(self, sensor: MutationSensor, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._sensor = sensor
        self._now_ms = now_ms
        self._is_strict = is_strict
        self.throttle_ms = 0

    def __call__(self, partitions: int) -> None:
        """So many partitions are about to be made or removed."""
        now_ms = self._now_ms()
        if self._is_strict:
            throttle_ms = self._sensor.throttle_ms(now_ms)
            if throttle_ms > 0:
                self._note(throttle_ms, now_ms)
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
            self._sensor.take(partitions, now_ms)
            return
        self._sensor.take(partitions, now_ms)
        self._note(self._sensor.throttle_ms(now_ms), now_ms)

    def _note(self, throttle_ms: int, now_ms: int) -> None:
        if throttle_ms > self.throttle_ms:
            self.throttle_ms = throttle_ms
            self._sensor.throttle_time.note(throttle_ms, now_ms)
