"""Client quotas as a controller decides about them (Kafka's ClientQuotaControlManager): AlterClientQuotas.

Each entity of a request succeeds or fails by itself, with all its limits. A limit that has its value already
makes no record. The checks and their words are Kafka's, with one difference: an address must be an
address, because a controller that looks up a host's name would wait for somebody else's server.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult, check_size
from headrace.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from headrace.metadata.image import MetadataRecord
from headrace.metadata.security import QuotaKey
from headrace.wire.schemas import alter_client_quotas as wire
from headrace.wire.schemas.metadata_records import ClientQuotaRecord, EntityData

_LONG_MAX: Final = float(2**63 - 1)
_INT_MAX: Final = float(2**31 - 1)
_FRACTION_MAX: Final = 1e-6

# The largest value of each limit, and its type's name; None where any number is one.
_OF_CLIENTS: Final[Mapping[str, tuple[float, str] | None]] = {
    PRODUCER_BYTE_RATE: (_LONG_MAX, "LONG"),
    CONSUMER_BYTE_RATE: (_LONG_MAX, "LONG"),
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_OF_ADDRESSES: Final[Mapping[str, tuple[float, str] | None]] = {
    CONNECTION_CREATION_RATE: (_INT_MAX, "INT"),
}

_Entity = dict[str, str | None]


def alter_client_quotas(
    cluster: ClusterState, request: wire.AlterClientQuotasRequest
) -> ControllerResult[wire.AlterClientQuotasResponse]:
    """Decide about each entity of the request; with validate_only nothing is written."""
    records: list[MetadataRecord] = []
    results: dict[tuple[tuple[str, str | None], ...], wire.ResponseEntryData] = {}
    for entry in request.entries:
        entity = {each.entity_type: each.entity_name for each in entry.entity}
        key = tuple(sorted(entity.items(), key=lambda item: item[0]))
        is_new = key not in results
        result = results.setdefault(key, wire.ResponseEntryData(0, None, _entity_data(entity)))
        try:
            if not is_new:
                raise _invalid(f"Ignoring duplicate entity {_named(entity)}")
            made = _alter(cluster, entity, _wanted(entity, entry.ops))
            check_size(range(len(records) + len(made)))
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        records += made
    response = wire.AlterClientQuotasResponse(entries=list(results.values()))
    return ControllerResult(() if request.validate_only else records, response)


def _entity_data(entity: _Entity) -> list[wire.EntityData]:
    return [wire.EntityData(kind, name) for kind, name in entity.items()]


def _wanted(entity: _Entity, ops: list[wire.OpData]) -> dict[str, float | None]:
    """The limits by name; None is to be removed."""
    wanted: dict[str, float | None] = {}
    for op in ops:
        if op.key in wanted:
            raise _invalid(f"Ignoring duplicate entity {_named(entity)}")  # so Kafka says of keys, too
        wanted[op.key] = None if op.remove else op.value
    return wanted


def _named(entity: _Entity) -> str:
    """As Kafka's messages show it."""
    entries = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity.items())
    return f"ClientQuotaEntity(entries={{{entries}}})"


def _alter(
    cluster: ClusterState, entity: _Entity, wanted: Mapping[str, float | None]
) -> list[MetadataRecord]:
    _check_entity(entity)
    known = _limits_for(entity)
    quotas = cluster.image.security.quotas
    key = tuple(sorted(entity.items(), key=lambda item: item[0]))
    records: list[MetadataRecord] = []
    for limit, value in wanted.items():
        current = quotas.get(QuotaKey(key, limit))
        if value is None:
            if current is not None:
                records.append(_record(entity, limit, 0.0, remove=True))
            continue
        _check_value(known, limit, value)
        if current is None or current.value != value:
            records.append(_record(entity, limit, value))
    return records


def _record(entity: _Entity, limit: str, value: float, *, remove: bool = False) -> ClientQuotaRecord:
    names = [EntityData(kind, name) for kind, name in entity.items()]
    return ClientQuotaRecord(names, limit, value, remove)


def _check_entity(entity: _Entity) -> None:
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")


def _limits_for(entity: _Entity) -> Mapping[str, tuple[float, str] | None]:
    """What can be limited for such an entity."""
    if IP not in entity:
        return _OF_CLIENTS
    if len(entity) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = entity[IP]
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise _invalid(f"{address} is not a valid IP or resolvable host.") from None
    return _OF_ADDRESSES


def _check_value(known: Mapping[str, tuple[float, str] | None], limit: str, value: float) -> None:
    if limit not in known:
        raise _invalid(f"Invalid configuration key {limit}")
    if not value > 0:
        raise _invalid(f"Quota {limit} must be greater than 0")
    bound = known[limit]
    if bound is None:
        return
    if value > bound[0]:
        article = "an" if bound[1] == "INT" else "a"
        raise _invalid(f"Proposed value for {limit} is too large for {article} {bound[1]}.")
    if value % 1.0 > _FRACTION_MAX:
        raise _invalid(f"{limit} cannot be a fractional value.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
