"""Client quotas as the image has them: whom they bind, what they limit, and which ones a filter finds.

An entity is a user, a client id, both, or an address; a name of None is the default of its type. The rules
and their words are Kafka's (ClientQuotasImage.describe, KIP-546).
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.metadata.security import SecurityTables
from headrace.wire.schemas.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    EntryData,
    ValueData,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

# How a filter names an entity.
EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2
_MATCH_NAMES: Final = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of type and name, sorted."""


def quotas_by_entity(tables: SecurityTables) -> dict[Entity, dict[str, float]]:
    """All limits of each entity."""
    found: dict[Entity, dict[str, float]] = {}
    for key, record in tables.quotas.items():
        found.setdefault(key.entity, {})[key.limit] = record.value
    return found


def quotas_of(tables: SecurityTables, limit: str) -> dict[Entity, float]:
    """Whom one limit binds, and to what."""
    return {key.entity: record.value for key, record in tables.quotas.items() if key.limit == limit}


def describe_client_quotas(tables: SecurityTables, request: DescribeClientQuotasRequest) -> list[EntryData]:
    """The entities that a filter finds, with their limits. ApiError where it is no filter."""
    wanted = _checked(request.components)
    return [
        EntryData(
            [EntityData(kind, name) for kind, name in entity],
            [ValueData(limit, value) for limit, value in limits.items()],
        )
        for entity, limits in quotas_by_entity(tables).items()
        if _matches(dict(entity), wanted, strict=request.strict)
    ]


def _matches(entity: Mapping[str, str | None], wanted: Mapping[str, ComponentData], *, strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(
        kind in entity and (component.match_type == SPECIFIED or entity[kind] == component.match)
        for kind, component in wanted.items()
    )


def _checked(components: Iterable[ComponentData]) -> dict[str, ComponentData]:
    wanted: dict[str, ComponentData] = {}
    for each in components:
        kind = each.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in wanted:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_match(each)
        wanted[kind] = each
    if IP in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return wanted


def _check_match(component: ComponentData) -> None:
    if component.match_type == EXACT:
        if component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type not in _MATCH_NAMES:
        raise _invalid(f"Unknown match type {component.match_type}")
    elif component.match is not None:
        name = _MATCH_NAMES[component.match_type]
        raise _invalid(f"Request specified {name}, but also specified a match string.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
