"""Settings of topics, brokers and groups, as an administrator reads and changes them."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.clients.cluster_client import ANY_BROKER, ClusterClient
from headrace.clients.errors import ClientError, NoSuchTopicError, raise_for
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

DESCRIBE_CONFIGS: Final = 32
_FIRST_WITH_DOCS: Final = 3


class ResourceKind(IntEnum):
    """What settings can belong to, by its number on the wire."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigValue(NamedTuple):
    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    doc: str


async def describe_configs(
    cluster: ClusterClient, kind: ResourceKind, name: str, *, docs: bool = False
) -> list[ConfigValue]:
    """All settings of a topic, broker or group, by name."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource])
    home = await _home(cluster, kind, name)
    # Older brokers have no field for the wish, and an error for it.
    version = (await cluster.find(home)).versions.choose(DESCRIBE_CONFIGS)
    request.include_documentation = docs and version >= _FIRST_WITH_DOCS

    async def ask() -> list[ConfigValue]:
        (result,) = (await cluster.call(request, node=home)).results
        _raise_for_resource(kind, name, "read the settings of", result.error_code, result.error_message)
        entries = (
            ConfigValue(
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

    return await cluster.patiently(ask)


async def alter_configs(
    cluster: ClusterClient,
    kind: ResourceKind,
    name: str,
    *,
    set_to: Mapping[str, str],
    delete: Iterable[str] = (),
) -> None:
    """Change some settings, and take others back to their default."""
    changes = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in set_to.items()]
    changes += [AlterableConfig(name=key, config_operation=1, value=None) for key in delete]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    home = await _home(cluster, kind, name)

    async def ask() -> None:
        (result,) = (await cluster.call(request, node=home)).responses
        _raise_for_resource(kind, name, "change the settings of", result.error_code, result.error_message)

    await cluster.patiently(ask)


async def _home(cluster: ClusterClient, kind: ResourceKind, name: str) -> int:
    """A broker's own settings are asked of that broker; everything else of any."""
    if kind is not ResourceKind.BROKER or not name:
        return ANY_BROKER
    if not name.isdecimal():
        raise ClientError(f"{name!r} is no broker: a broker is named by its number")
    await cluster.require_broker(int(name))
    return int(name)


def _raise_for_resource(kind: ResourceKind, name: str, doing: str, code: int, message: str | None) -> None:
    if kind is ResourceKind.TOPIC and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise NoSuchTopicError(name)
    what = f"{kind.name.lower()} {name}" if name else f"all {kind.name.lower()}s"
    raise_for(code, f"cannot {doing} {what}", message)
