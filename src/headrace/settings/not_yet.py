"""Settings of what is not built yet: taken with a note, or refused where that would be a false promise.

A setting that only tunes something (how often, how large) is taken, so that a file of Kafka's works, and
says in its `effect` that nothing depends on it. One that asks for protection or for a service (who may do
what, values from elsewhere) is refused: a node that ignores it would not be what its file says.
Whoever builds one of these takes its line out here; a test compares the lines with what the code reads.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.settings.definition import Setting, SettingError

if TYPE_CHECKING:
    from headrace.settings.broker_config import BrokerConfig

_ALONE: Final = "a node is on its own as yet."
_DEFAULTS: Final = "the built-in choice is always used as yet."
_QUOTAS: Final = "quotas are not built yet."
_SECURITY: Final = "only PLAINTEXT listeners, open to everyone, are built as yet."
_SHARE: Final = "share groups are not built yet."
_STREAMS: Final = "streams groups are not built yet."

_READ: Final = ""

# By name, or by the beginning of a name where it ends with a dot. The longest that fits counts.
NOT_YET: Final = {
    "allow.everyone.if.no.acl.found": _SECURITY,
    "alter.log.dirs.": _QUOTAS,
    "authorizer.class.name": _SECURITY,
    "config.providers": _DEFAULTS,
    "connection.failed.authentication.delay.ms": _SECURITY,
    "connections.max.reauth.ms": _SECURITY,
    "controlled.shutdown.enable": _DEFAULTS,
    "controller.performance.": _DEFAULTS,
    "controller.quorum.append.linger.ms": _DEFAULTS,
    "controller.quorum.retry.backoff.ms": _DEFAULTS,
    "controller.quota.": _QUOTAS,
    "controller.socket.timeout.ms": _ALONE,
    "delegation.token.": _SECURITY,
    "early.start.listeners": _SECURITY,
    "group.consumer.regex.refresh.interval.ms": "patterns are looked at whenever topics change.",
    "group.coordinator.append.linger.ms": _DEFAULTS,
    "group.coordinator.rebalance.protocols": _DEFAULTS,
    "group.share.": _SHARE,
    "group.streams.": _STREAMS,
    "internal.metadata.": _DEFAULTS,
    "log.dir.failure.timeout.ms": _ALONE,
    "log.initial.task.delay.ms": _DEFAULTS,
    "max.connection.creation.rate": _QUOTAS,
    "metadata.max.idle.interval.ms": _DEFAULTS,
    "num.recovery.threads.per.data.dir": _DEFAULTS,
    "num.replica.alter.log.dirs.threads": "one event loop moves all replicas.",
    "offsets.load.buffer.size": _DEFAULTS,
    "offsets.topic.compression.codec": _DEFAULTS,
    "quota.window.": _QUOTAS,
    "replica.socket.receive.buffer.bytes": "the system sizes the buffers of a follower's connection.",
    "replication.quota.": _QUOTAS,
    "sasl.": _SECURITY,
    "server.max.startup.time.ms": _DEFAULTS,
    "share.coordinator.": _SHARE,
    "share.coordinator.state.topic.min.isr": _READ,
    "share.coordinator.state.topic.num.partitions": _READ,
    "share.coordinator.state.topic.replication.factor": _READ,
    "share.coordinator.state.topic.segment.bytes": _READ,
    "socket.connection.setup.timeout.": _ALONE,
    "ssl.": _SECURITY,
    "super.users": _SECURITY,
    "telemetry.max.bytes": _DEFAULTS,
    "transaction.state.log.load.buffer.size": _DEFAULTS,
    "unstable.": _DEFAULTS,
}


def with_notes(settings: dict[str, Setting]) -> dict[str, Setting]:
    """The same settings, each that nothing reads yet with the note that says so."""
    noted = {}
    for name, setting in settings.items():
        note = "" if setting.effect else _note(name)
        noted[name] = replace(setting, effect=note) if note else setting
    return noted


def _note(name: str) -> str:
    """The note of the longest line that fits a name: the name itself, or its beginning up to some dot."""
    end = len(name)
    beginning = name
    while beginning not in NOT_YET:
        end = name.rfind(".", 0, end)
        if end < 0:
            return ""
        beginning = name[: end + 1]
    return NOT_YET[beginning]


def refuse_what_is_missing(config: "BrokerConfig") -> None:
    """SettingError for a setting that asks for what is not built, and must not be ignored."""
    if config.str("authorizer.class.name"):
        raise SettingError(
            "authorizer.class.name", "no authorizer is built yet: without it everyone may do everything"
        )
    if config.list("config.providers"):
        raise SettingError(
            "config.providers", "values from elsewhere cannot be looked up yet: write them out"
        )
