"""Brokers and controllers as they registered, and what became of them since.

A broker's epoch is the offset at which its registration was decided: a broker that was replaced by a newer
incarnation of itself is told apart by it. A fenced broker holds replicas but leads nothing and is not shown
to clients.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import NO_EPOCH
from headrace.metadata.delta import MetadataDelta
from headrace.wire.schemas.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

FENCE: Final = 1
UNFENCE: Final = -1
"""The `fenced` field of a BrokerRegistrationChangeRecord; 0 leaves it as it is."""

ENTER_CONTROLLED_SHUTDOWN: Final = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a node listens under one listener name. `security_protocol` is Kafka's number: 0 is PLAINTEXT."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The levels of a feature that a node can run."""

    min: int
    max: int

    def __contains__(self, level: int) -> bool:
        return self.min <= level <= self.max


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A registered broker."""

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: dict[str, Endpoint]
    features: dict[str, VersionRange]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None
    served_epoch: int = field(default=NO_EPOCH, compare=False)
    """The newest epoch in which it was let in, maybe as the process before."""

    @property
    def is_active(self) -> bool:
        """Whether new leaders and replicas may be put here."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def is_cordoned(self) -> bool:
        """Whether every directory is closed to new replicas (KIP-1066)."""
        cordoned = self.cordoned_directories
        return bool(cordoned and self.directories) and set(self.directories) <= set(cordoned or ())


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A registered controller."""

    id: int
    incarnation_id: bytes
    endpoints: dict[str, Endpoint]
    features: dict[str, VersionRange]
    zk_migration_ready: bool = False


class ClusterImage:
    """The tables of brokers and controllers, and what the registration records do to them."""

    __slots__ = ("brokers", "controllers")

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, ControllerRegistration] = {}

    def replay_register_broker(self, record: RegisterBrokerRecord, delta: MetadataDelta) -> None:
        cordoned = record.cordoned_log_dirs
        before = self.brokers.get(record.broker_id)
        served_before = NO_EPOCH if before is None else before.served_epoch
        self.brokers[record.broker_id] = BrokerRegistration(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
            served_epoch=served_before if record.fenced else record.broker_epoch,
        )
        delta.brokers_changed.add(record.broker_id)

    def replay_unregister_broker(self, record: UnregisterBrokerRecord, delta: MetadataDelta) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self.brokers[record.broker_id]
        delta.brokers_changed.add(record.broker_id)

    def replay_registration_change(
        self, record: BrokerRegistrationChangeRecord, delta: MetadataDelta
    ) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker = _fenced(broker) if record.fenced == FENCE else _let_in(broker)
        if record.in_controlled_shutdown:
            broker = replace(broker, in_controlled_shutdown=True)
        if record.log_dirs:
            broker = replace(broker, directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = replace(broker, cordoned_directories=tuple(record.cordoned_log_dirs))
        self._put(broker, delta)

    def replay_fence(self, record: FenceBrokerRecord, delta: MetadataDelta) -> None:
        self._put(_fenced(self._broker(record.id, record.epoch)), delta)

    def replay_unfence(self, record: UnfenceBrokerRecord, delta: MetadataDelta) -> None:
        self._put(_let_in(self._broker(record.id, record.epoch)), delta)

    def replay_register_controller(self, record: RegisterControllerRecord, delta: MetadataDelta) -> None:
        self.controllers[record.controller_id] = ControllerRegistration(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            zk_migration_ready=record.zk_migration_ready,
        )

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "no such broker" if broker is None else f"its epoch is {broker.epoch}"
            raise InvalidBytesError(
                f"metadata record for broker {broker_id} of epoch {epoch}, but there is {known}"
            )
        return broker

    def _put(self, broker: BrokerRegistration, delta: MetadataDelta) -> None:
        self.brokers[broker.id] = broker
        delta.brokers_changed.add(broker.id)


def register_broker_records(broker: BrokerRegistration) -> list[RegisterBrokerRecord]:
    """What registers this broker as it is now: for snapshots. Of one that is fenced there is first as what it
    was last let in, so that its next process can refer to that."""
    records = [_registration(broker)]
    if broker.fenced and broker.served_epoch != NO_EPOCH:
        records.insert(0, _registration(replace(broker, epoch=broker.served_epoch, fenced=False)))
    return records


def _registration(broker: BrokerRegistration) -> RegisterBrokerRecord:
    cordoned = broker.cordoned_directories
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints.values()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=r.min, max_supported_version=r.max)
            for name, r in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def register_controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    """The record that registers this controller as it is now."""
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in controller.endpoints.values()
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=r.min, max_supported_version=r.max)
            for name, r in controller.features.items()
        ],
    )


def _endpoints(listed: list[BrokerEndpoint] | list[ControllerEndpoint]) -> dict[str, Endpoint]:
    return {e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in listed}


def _features(listed: list[BrokerFeature] | list[ControllerFeature]) -> dict[str, VersionRange]:
    return {f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in listed}


def _fenced(broker: BrokerRegistration) -> BrokerRegistration:
    return replace(broker, fenced=True)


def _let_in(broker: BrokerRegistration) -> BrokerRegistration:
    return replace(broker, fenced=False, served_epoch=broker.epoch)
