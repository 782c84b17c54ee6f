"""Settings as a broker sees them: what it answers itself, and what it leaves to the controller (Kafka's
ConfigAdminManager).

Settings of a broker are asked of that broker itself: it alone has its file, and its process. Changes are
asked of it too, and it passes them to the controller, which takes them for any broker.

The levels of this process's loggers are the settings of a resource that lives as long as the process
(KIP-412). Levels are those of Python's logging in Kafka's words: WARN is WARNING, FATAL is CRITICAL, and
TRACE is below DEBUG. A logger has our name, or one of Kafka's that stands for some of ours. The levels are
never written to the metadata log: a restart forgets them.
"""

import logging
import re
from asyncio import AbstractEventLoop, Future
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import then
from headrace.log.log_manager import EVERY_LOG_DIR
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.features import CORDONS_FROM, METADATA_VERSION, METADATA_VERSION_NAMES
from headrace.security.login import JAAS, read_jaas
from headrace.server.context import RequestContext
from headrace.settings.broker_config import broker_setting, parse_broker_setting
from headrace.settings.changes import CORDONED
from headrace.settings.definition import ConfigType, SettingError
from headrace.settings.names import listener_setting
from headrace.settings.topic import TOPIC
from headrace.telemetry.kafka_loggers import KAFKA_LOGGERS, OWN, own_loggers

logger = logging.getLogger(__name__)

_OPERATIONS: Final = {0: "=", 1: "", 2: "+=", 3: "-="}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")

ROOT: Final = "root"

LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def check_changeable(context: RequestContext, name: str) -> None:
    """INVALID_REQUEST unless settings of the broker of this name can be changed through this listener."""
    if _is_through_controller(context):
        _check_number(name)
    else:
        check_own_id(context, name)


def check_own_id(
    context: RequestContext,
    name: str,
    *,
    what: str = "Node",
    unexpected: str = "Unexpected broker id, expected %s, but received %s",
) -> None:
    """INVALID_REQUEST unless `name` is this broker's number. Kafka has other words in each place."""
    _check_number(name, what)
    if int(name) != context.parts.node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, unexpected % (context.parts.node_id, name))


def check_cordons(context: RequestContext, name: str, value: str | None) -> None:
    """Whether a broker's `cordoned.log.dirs` can be given this value, or these values besides.

    Only the broker knows its folders. A controller, asked directly, lets cordons be lifted: for a broker that
    is down (KIP-1066).
    """
    if context.peer.is_forwarded:
        return  # the broker has looked
    parts = context.parts
    wanted = {each.strip() for each in (value or "").split(",")} - {""}
    if parts.image.features.get(METADATA_VERSION, 0) < CORDONS_FROM:
        what = f"{CORDONED} needs metadata.version {METADATA_VERSION_NAMES[CORDONS_FROM]}"
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{what}: raise it with kafka-features first")
    if _is_through_controller(context):
        present = set(parts.image.config_of(ResourceType.BROKER, name).get(CORDONED, "").split(","))
        if not wanted <= present:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{CORDONED}: a controller only takes directories out of it: ask broker {name} to add one",
            )
    elif strangers := wanted - {*parts.config.log_dirs, EVERY_LOG_DIR}:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{CORDONED}: {min(strangers)} is not in log.dirs")


def _check_logins(changes: Mapping[str, str | None]) -> None:
    """A JAAS line that cannot be read would lock everyone out who logs in by it. What is wrong is told, the
    line is not."""
    for name, text in changes.items():
        if text and listener_setting(name) == JAAS:
            mechanism = name.removesuffix(f".{JAAS}").rpartition(".")[2].upper()
            try:
                read_jaas(text, mechanism, name)
            except SettingError as wrong:
                raise ApiError(ErrorCode.INVALID_REQUEST, str(wrong)) from None


def check_stores(context: RequestContext, changes: Mapping[str, str | None], *, others_stay: bool) -> None:
    """Whether stores of TLS can be replaced as a change of this broker's own settings asks; None takes a
    setting back. Only the broker can read their files."""
    parts = context.parts
    if context.peer.is_forwarded or _is_through_controller(context):
        return
    _check_logins(changes)
    if not any(listener_setting(name).startswith("ssl.") for name in changes):
        return
    after = {**parts.config.dynamic_broker} if others_stay else {}
    for name, value in changes.items():
        after.pop(name, None)
        if value is not None:
            after[name] = value
    try:
        for name, value in after.items():
            parse_broker_setting(name, value)
        parts.check_stores(parts.config.with_dynamic(broker=after, default=parts.config.dynamic_default))
    except SettingError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, error.for_clients) from error


def _is_through_controller(context: RequestContext) -> bool:
    return context.peer.listener in context.parts.config.controller_listener_names


def _check_number(name: str, what: str = "Node") -> None:
    if not _WHOLE_NUMBER.fullmatch(name):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}")


class ConfigsResponse(Protocol):
    """A response with a result for each resource that was asked for, in that order."""

    responses: list[Any]


AnyResponse = TypeVar("AnyResponse", bound=ConfigsResponse)


def reassemble(
    decided: "Future[AnyResponse]", here: dict[int, Any], *, loop: AbstractEventLoop
) -> "Future[AnyResponse]":
    """The reply of the controller with the results of this node put in at their places."""

    def put_in(reply: AnyResponse) -> AnyResponse:
        for place in sorted(here):
            reply.responses.insert(place, here[place])
        return reply

    return then(decided, put_in, loop=loop) if here else decided


class _ConfigsOfResource(Protocol):
    resource_type: int
    resource_name: str
    configs: list[Any]


def tell_changes(
    context: RequestContext,
    resources: Sequence[_ConfigsOfResource],
    decided: "Future[AnyResponse]",
    *,
    validate_only: bool,
) -> "Future[AnyResponse]":
    """Log who changed which settings, when it has been decided."""

    def tell(done: "Future[AnyResponse]") -> None:
        if done.cancelled() or done.exception() is not None:
            return
        for resource, result in zip(resources, done.result().responses, strict=False):
            if not result.error_code:
                logger.info(
                    "settings of %s changed by client %r at %s: %s",
                    *(_resource(resource), context.client_id, context.peer),
                    ", ".join(map(_change, resource.configs)) or "all taken back",
                )

    if not validate_only:
        decided.add_done_callback(tell)
    return decided


def _resource(resource: _ConfigsOfResource) -> str:
    kind = resource.resource_type
    name = ResourceType(kind).name.lower() if kind in list(ResourceType) else f"type {kind}"
    return f"{name} {resource.resource_name!r}" if resource.resource_name else f"all {name}s"


def _change(config: Any) -> str:
    """`name=value`; of what may be a secret, the name only."""
    operation = _OPERATIONS.get(getattr(config, "config_operation", 0), "=")
    if operation == "":
        return f"{config.name} taken back"
    setting = broker_setting(config.name) or TOPIC.get(config.name)
    is_secret = setting is None or setting.sensitive or setting.kind is ConfigType.PASSWORD
    is_known_safe = (
        not is_secret or config.name in KAFKA_LOGGERS or config.name.partition(".")[0] in (OWN, ROOT)
    )
    return f"{config.name}{operation}{config.value if is_known_safe else '(hidden)'}"


# --- loggers ------------------------------------------------------------------------------------------------


def logger_levels() -> dict[str, str]:
    """Every logger of ours, the root of all, and Kafka's names of ours, with the level in force."""
    names = {name for name in logging.root.manager.loggerDict if name.partition(".")[0] == OWN}
    names |= KAFKA_LOGGERS.keys()
    return {name: _word(_loggers(name)[0].getEffectiveLevel()) for name in (ROOT, *sorted(names))}


def set_logger_level(name: str, level: str) -> None:
    """Change a logger's level."""
    for each in _loggers(name):
        each.setLevel(LEVELS[level])


def unset_logger_level(name: str) -> None:
    """Let a logger follow the one above it again."""
    for each in _loggers(name):
        each.setLevel(logging.NOTSET)


def check_logger(name: str) -> None:
    """INVALID_CONFIG for a logger that does not exist."""
    if name not in logger_levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")


def check_level(name: str, level: str | None) -> None:
    """INVALID_CONFIG for a level that is none."""
    if level not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"logger {name} cannot have the level {level}; levels are {', '.join(LEVELS)}",
        )


def _loggers(name: str) -> list[logging.Logger]:
    return [logging.root] if name == ROOT else [logging.getLogger(each) for each in own_loggers(name)]


def _word(level: int) -> str:
    """The loudest of Kafka's words that is not above a level."""
    return next((word for word, number in reversed([*LEVELS.items()]) if number <= level), "TRACE")
