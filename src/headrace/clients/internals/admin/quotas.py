"""Quotas of users, clients and addresses, as an administrator reads and changes them (KIP-546)."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from headrace.clients.errors import ClientError, raise_for
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.network_client import ANY_BROKER, NetworkClient
from headrace.wire.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from headrace.wire.schemas.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

Entity: TypeAlias = Mapping[str, str | None]
"""Whom a quota binds: names by "user", "client-id" or "ip"; None is the default of that type."""

EVERYBODY: Final[Entity] = MappingProxyType({})
NO_LIMITS: Final[Mapping[str, float]] = MappingProxyType({})

_EXACT, _DEFAULT, _ANY = range(3)


class ClientQuota(NamedTuple):
    """An entity, and its limits by their names."""

    entity: dict[str, str | None]
    limits: dict[str, float]


def entity_text(entity: Entity) -> str:
    """An entity as a person reads it."""
    return " and ".join(
        f"{kind} {name}" if name is not None else f"any {kind}" for kind, name in entity.items()
    )


async def describe_client_quotas(
    client: NetworkClient,
    entity: Entity = EVERYBODY,
    *,
    any_of: str | Iterable[str] = (),
    strict: bool = False,
) -> list[ClientQuota]:
    """The quotas of all entities with these names, and with any name of the types in `any_of`."""
    components = [
        ComponentData(kind, _DEFAULT if name is None else _EXACT, name) for kind, name in entity.items()
    ]
    components += [ComponentData(kind, _ANY, None) for kind in names_of(any_of)]
    request = DescribeClientQuotasRequest(components, strict)

    async def ask() -> list[ClientQuota]:
        response = await client.call(request, node=ANY_BROKER)
        raise_for(response.error_code, "cannot read quotas", response.error_message)
        return [
            ClientQuota(
                {each.entity_type: each.entity_name for each in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in response.entries or ()
        ]

    return await client.patiently(ask)


async def alter_client_quotas(
    client: NetworkClient,
    entity: Entity,
    *,
    set_to: Mapping[str, float] = NO_LIMITS,
    remove: str | Iterable[str] = (),
) -> None:
    """Set some limits of an entity, and remove others."""
    ops = [OpData(limit, float(value), False) for limit, value in set_to.items()]
    ops += [OpData(limit, 0.0, True) for limit in names_of(remove)]
    if not ops:
        raise ClientError(f"no quota of {entity_text(entity)} to change: give set_to or remove")
    names = [EntityData(kind, name) for kind, name in entity.items()]
    request = AlterClientQuotasRequest([RequestEntryData(names, ops)], False)

    async def ask() -> None:
        (result,) = (await client.call(request, node=ANY_BROKER)).entries
        raise_for(result.error_code, f"cannot change quotas of {entity_text(entity)}", result.error_message)

    await client.patiently(ask)
