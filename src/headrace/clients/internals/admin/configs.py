"""Settings of topics, brokers and groups, as an administrator reads and changes them."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.clients.errors import ClientError, NoSuchTopicError, raise_for
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.network_client import ANY_BROKER, NetworkClient
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.describe_configs import (
    DOCUMENTATION_SINCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


class ResourceKind(IntEnum):
    """What settings can belong to, by its number on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


ConfigValue: TypeAlias = str | int | float | bool
NOTHING: Final[Mapping[str, ConfigValue]] = MappingProxyType({})


def resource_kind(given: ResourceKind | str) -> ResourceKind:
    """The kind, also by its name; ClientError where there is no such one."""
    try:
        return ResourceKind[given.upper()] if isinstance(given, str) else ResourceKind(given)
    except (KeyError, ValueError):
        kinds = ", ".join(repr(each.name.lower()) for each in ResourceKind)
        raise ClientError(f"{given!r} has no settings: what has is one of {kinds}") from None


def config_text(name: str, value: Any) -> str:
    """A setting's value as it is sent; ClientError for what is no value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ClientError(f"{name}={value!r}: a setting is a text, a number, True or False")


class ConfigEntry(NamedTuple):
    """A setting of a topic, broker or group; `source` is the number that DescribeConfigs has for it."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    doc: str


async def describe_configs(
    client: NetworkClient, kind: ResourceKind | str, name: str, *, docs: bool = False
) -> list[ConfigEntry]:
    """All settings of a topic, broker or group, by name."""
    kind = resource_kind(kind)
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource])
    home = await _home(client, kind, name)
    # Older brokers have no field for the wish, and an error for it.
    version = (await client.find(home)).versions.choose(ApiKey.DESCRIBE_CONFIGS)
    request.include_documentation = docs and version >= DOCUMENTATION_SINCE

    async def ask() -> list[ConfigEntry]:
        (result,) = (await client.call(request, node=home)).results
        _raise_for_resource(kind, name, "read the settings of", result.error_code, result.error_message)
        entries = (
            ConfigEntry(
                each.name,
                each.value,
                each.config_source,
                each.read_only,
                each.is_sensitive,
                each.documentation or "",
            )
            for each in result.configs
        )
        return sorted(entries)

    return await client.patiently(ask)


async def alter_configs(
    client: NetworkClient,
    kind: ResourceKind | str,
    name: str,
    *,
    set_to: Mapping[str, ConfigValue] = NOTHING,
    delete: str | Iterable[str] = (),
) -> None:
    """Change some settings, and take others back to their default."""
    kind = resource_kind(kind)
    changes = [
        AlterableConfig(name=key, config_operation=0, value=config_text(key, value))
        for key, value in set_to.items()
    ]
    changes += [AlterableConfig(name=key, config_operation=1, value=None) for key in names_of(delete)]
    if not changes:
        raise ClientError(f"nothing to change of {kind.name.lower()} {name!r}: give set_to or delete")
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    home = await _home(client, kind, name)

    async def ask() -> None:
        (result,) = (await client.call(request, node=home)).responses
        _raise_for_resource(kind, name, "change the settings of", result.error_code, result.error_message)

    await client.patiently(ask)


async def _home(client: NetworkClient, kind: ResourceKind, name: str) -> int:
    """A broker's own settings are asked of that broker; everything else of any."""
    if kind is not ResourceKind.BROKER or not name:
        return ANY_BROKER
    if not name.isdecimal():
        raise ClientError(f"{name!r} is no broker: a broker is named by its number")
    await client.require_broker(int(name))
    return int(name)


def _raise_for_resource(kind: ResourceKind, name: str, doing: str, code: int, message: str | None) -> None:
    if kind is ResourceKind.TOPIC and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise NoSuchTopicError(name)
    what = f"{kind.name.lower()} {name}" if name else f"all {kind.name.lower()}s"
    raise_for(code, f"cannot {doing} {what}", message)
