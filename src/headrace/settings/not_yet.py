"""Settings of what is not built yet: taken with a note, or refused where that would be a false promise.

A setting that only tunes something (how often, how large) is taken, so that a file of Kafka's works, and
says in its `effect` that nothing depends on it. One that asks for protection or for a service (who may do
what) is refused: a node that ignores it would not be what its file says.
Whoever builds one of these takes its line out here; a test compares the lines with what the code reads.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.settings.definition import Setting, SettingError

if TYPE_CHECKING:
    from headrace.settings.broker_config import BrokerConfig

_DEFAULTS: Final = "the built-in choice is always used as yet."
_BURST: Final = "what throttled replicas do not use is kept for one second, whatever this says."

_READ: Final = ""
_KEY: Final = "a key and its certificate: set ssl.keystore.location, or ssl.keystore.key with its chain."

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PRINCIPAL_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"

# Classes that would decide what somebody may do: what to use in their place.
_POLICIES: Final = {
    "alter.config.policy.class.name": "who may change settings is up to access rules (headrace acl)",
    "create.topic.policy.class.name": "who may make topics is up to access rules (headrace acl), how many "
    "to quotas (headrace quota)",
    "principal.builder.class": "names are made by ssl.principal.mapping.rules",
}

# By name, or by the beginning of a name where it ends with a dot. The longest that fits counts.
NOT_YET: Final = {
    "alter.log.dirs.": _BURST,
    "controlled.shutdown.enable": _DEFAULTS,
    "controller.performance.": _DEFAULTS,
    "controller.quorum.append.linger.ms": _DEFAULTS,
    "controller.quorum.retry.backoff.ms": _DEFAULTS,
    "controller.socket.timeout.ms": _DEFAULTS,
    "group.consumer.regex.refresh.interval.ms": "patterns are looked at whenever topics or ACLs change.",
    "group.coordinator.append.linger.ms": _DEFAULTS,
    "group.share.assignors": "there is one assignor, simple.",
    "internal.metadata.": _DEFAULTS,
    "log.dir.failure.timeout.ms": _DEFAULTS,
    "log.initial.task.delay.ms": _DEFAULTS,
    "metadata.max.idle.interval.ms": _DEFAULTS,
    "num.recovery.threads.per.data.dir": _DEFAULTS,
    "num.replica.alter.log.dirs.threads": "one event loop moves all replicas.",
    "offsets.load.buffer.size": _DEFAULTS,
    "offsets.topic.compression.codec": _DEFAULTS,
    "replica.socket.receive.buffer.bytes": "the system sizes the buffers of a follower's connection.",
    "replication.quota.": _BURST,
    "sasl.login.": _DEFAULTS,
    "sasl.oauthbearer.assertion.": "assertions are not built yet: give a client's id and secret.",
    "sasl.oauthbearer.jwks.endpoint.retry.": _DEFAULTS,
    "server.max.startup.time.ms": _DEFAULTS,
    "share.coordinator.append.linger.ms": _DEFAULTS,
    "share.coordinator.load.buffer.size": _DEFAULTS,
    "share.coordinator.state.topic.compression.codec": _DEFAULTS,
    "socket.connection.setup.timeout.": _DEFAULTS,
    "transaction.state.log.load.buffer.size": _DEFAULTS,
    "unstable.": _DEFAULTS,
    "unstable.api.versions.enable": _READ,
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
    """SettingError for settings that ask for what is not built, and must not be ignored: a node that is told
    to lock its doors and cannot does not start with open ones. All of them are named, one in a line."""
    wrong = [*_missing_locks(config)]
    if wrong:
        (setting, reason), *others = wrong
        raise SettingError(setting, "\n".join([reason, *(f"  {name}: {why}" for name, why in others)]))


def _missing_locks(config: "BrokerConfig") -> Iterator[tuple[str, str]]:
    for endpoint in config.listeners:
        if endpoint.protocol.endswith("SSL") and not _has_key(config, endpoint.name):
            yield "listeners", f"{endpoint} asks for {endpoint.protocol}, which needs {_KEY}"
    authorizer = config.str("authorizer.class.name")
    if authorizer not in ("", STANDARD_AUTHORIZER):
        yield "authorizer.class.name", f"{authorizer} cannot be run: {STANDARD_AUTHORIZER} is built in."
    for name, instead in _POLICIES.items():
        given = config.static.get(name, "").strip()
        if given not in ("", PRINCIPAL_BUILDER):
            yield name, f"{given} cannot be run, and would not be asked: take the line out; {instead}."


def _has_key(config: "BrokerConfig", listener: str) -> bool:
    names = ("ssl.keystore.location", "ssl.keystore.key")
    return any(config.get(f"listener.name.{listener.lower()}.{name}") or config.get(name) for name in names)
