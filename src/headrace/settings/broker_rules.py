"""What a broker's settings must fulfil together, which no single setting's check can see.

Each rule names the setting to change. Kafka refuses to start for the same reasons.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.settings.definition import Setting, SettingError, parse
from headrace.settings.table import read_table

if TYPE_CHECKING:
    from headrace.settings.broker_config import BrokerConfig
if TYPE_CHECKING:
    from headrace.settings.broker_config import BrokerConfig

# The first number of each pair must not be above the second.
_NOT_ABOVE: Final = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)
# Limits that a broker sets for groups' own settings: the broker's own value must lie within them, too.
_WITHIN_LIMITS: Final = (
    ("group.consumer.", ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")),
    ("group.streams.", ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")),
    (
        "group.share.",
        (
            "assignment.interval.ms",
            "delivery.count.limit",
            "heartbeat.interval.ms",
            "partition.max.record.locks",
            "record.lock.duration.ms",
            "session.timeout.ms",
        ),
    ),
)
# Compression by number: none, gzip, snappy, lz4, zstd.
_CODECS: Final = range(5)
_DEDUPE_BYTES_MIN: Final = 1 << 20


def check_together(config: "BrokerConfig") -> None:
    """SettingError for the first rule that the settings break."""
    _check_identity(config)
    _check_listeners(config)
    _check_advertised(config)
    _check_numbers(config)
    _check_log(config)
    _check_network(config)
    if config.bool("remote.log.storage.system.enable"):
        check_remote_log_topic(config)


def _check_identity(config: "BrokerConfig") -> None:
    node_id, voters = config.node_id, config.list("controller.quorum.voters")
    if config.int("broker.id") not in (-1, node_id):
        raise SettingError(
            "broker.id", f"{config.int('broker.id')} is not node.id, {node_id}: leave broker.id out"
        )
    if not voters and not config.list("controller.quorum.bootstrap.servers"):
        raise SettingError(
            "controller.quorum.bootstrap.servers",
            "must be set, or else controller.quorum.voters, to find the quorum",
        )
    is_voter = not voters or str(node_id) in (voter.partition("@")[0] for voter in voters)
    if "controller" in config.roles and not is_voter:
        raise SettingError("controller.quorum.voters", f"must contain this controller, {node_id}@HOST:PORT")
    if "controller" not in config.roles and voters and is_voter:
        raise SettingError("controller.quorum.voters", f"contains node {node_id}, which is only a broker")


def _check_listeners(config: "BrokerConfig") -> None:
    ours, controllers = config.broker_listeners, config.controller_listeners
    names = ", ".join(config.controller_listener_names)
    if "controller" in config.roles and not controllers:
        raise SettingError(
            "listeners", f"a controller must listen on one of controller.listener.names ({names})"
        )
    if "controller" not in config.roles and controllers:
        raise SettingError(
            "listeners", f"{controllers[0].name} is a controller's, and this node is only a broker"
        )
    if "broker" in config.roles and not ours:
        raise SettingError("listeners", "a broker needs a listener that is not in controller.listener.names")
    if "broker" not in config.roles and ours:
        raise SettingError("listeners", f"{ours[0].name} is a broker's, and this node is only a controller")


def _check_advertised(config: "BrokerConfig") -> None:
    if "broker" not in config.roles:
        return
    both = ("inter.broker.listener.name", "security.inter.broker.protocol")
    if all(name in config.static for name in both):
        raise SettingError(both[0], f"set either this or {both[1]}, not both")
    advertised = {each.name: each for each in config.advertised_listeners}
    between = config.inter_broker_listener_name
    if between not in advertised:
        known = ", ".join(advertised) or "none"
        raise SettingError(both[0], f"{between} is not among the advertised listeners ({known})")
    listening = {each.name for each in config.listeners}
    for endpoint in advertised.values():
        if endpoint.name not in listening:
            raise SettingError("advertised.listeners", f"{endpoint.name} is not in listeners")
        if endpoint.host == "0.0.0.0":
            setting = "advertised.listeners"
            raise SettingError(
                setting, f"clients cannot reach {endpoint}: set it to an address that they can"
            )
    _check_sasl(config, advertised[between].protocol)


def _check_sasl(config: "BrokerConfig", protocol: str) -> None:
    mechanism = config.str("sasl.mechanism.inter.broker.protocol")
    if protocol.startswith("SASL_") and mechanism not in config.list("sasl.enabled.mechanisms"):
        raise SettingError(
            "sasl.enabled.mechanisms", f"must contain {mechanism}, which brokers use among themselves"
        )


def _check_numbers(config: "BrokerConfig") -> None:
    for lower, upper in _NOT_ABOVE:
        if config.int(lower) > config.int(upper):
            raise SettingError(lower, f"{config.int(lower)} must not be above {upper}, {config.int(upper)}")
    for prefix, names in _WITHIN_LIMITS:
        for name in names:
            least, own, most = (prefix + part + name for part in ("min.", "", "max."))
            if not config.int(least) <= config.int(own) <= config.int(most):
                limits = f"{least}, {config.int(least)}, to {most}, {config.int(most)}"
                raise SettingError(own, f"{config.int(own)} must lie within {limits}")
        heartbeat, session = prefix + "heartbeat.interval.ms", prefix + "session.timeout.ms"
        if config.int(heartbeat) >= config.int(session):
            raise SettingError(
                heartbeat, f"{config.int(heartbeat)} must be below {session}, {config.int(session)}"
            )


def _check_log(config: "BrokerConfig") -> None:
    if config.get("log.retention.ms") == 0 or config.get("log.retention.minutes") == 0:
        name = "log.retention.ms" if config.get("log.retention.ms") == 0 else "log.retention.minutes"
        raise SettingError(name, "0 is not allowed: give at least 1, or -1 for ever")
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        value = config.get(name)
        if isinstance(value, int) and value < least:
            raise SettingError(name, f"{value} is not allowed: it must be at least {least}")
    threads, buffer = max(1, config.int("log.cleaner.threads")), config.int("log.cleaner.dedupe.buffer.size")
    if buffer // threads <= _DEDUPE_BYTES_MIN:
        raise SettingError(
            "log.cleaner.dedupe.buffer.size", f"{buffer} is too little: give 1 MiB for each thread"
        )
    strangers = set(config.list("cordoned.log.dirs")) - {*config.log_dirs, "*"}
    if strangers:
        raise SettingError("cordoned.log.dirs", f"{', '.join(sorted(strangers))} is not in log.dirs")
    for name in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        if config.int(name) not in _CODECS:
            raise SettingError(
                name, f"{config.int(name)} is no codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd"
            )


def _check_network(config: "BrokerConfig") -> None:
    queued, largest = config.int("queued.max.request.bytes"), config.int("socket.request.max.bytes")
    if 0 < queued < largest:
        raise SettingError(
            "queued.max.request.bytes", f"{queued} is below socket.request.max.bytes, {largest}"
        )
    overrides = parse_connection_overrides(config.str("max.connections.per.ip.overrides"))
    if config.int("max.connections.per.ip") == 0 and not overrides:
        raise SettingError("max.connections.per.ip", "0 needs exceptions in max.connections.per.ip.overrides")
    delay, idle = (
        config.int("connection.failed.authentication.delay.ms"),
        config.int("connections.max.idle.ms"),
    )
    if delay >= idle:
        name = "connection.failed.authentication.delay.ms"
        raise SettingError(name, f"{delay} must be below connections.max.idle.ms, {idle}")


def parse_connection_overrides(text: str) -> dict[str, int]:
    """Addresses and their limits out of max.connections.per.ip.overrides."""
    limits = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = item.rpartition(":")
        if not address or not count.strip().isdecimal():
            raise SettingError("max.connections.per.ip.overrides", f"{item!r} is not ADDRESS:COUNT")
        limits[address.strip().strip("[]")] = int(count)
    return limits


# What a broker's file says of `__remote_log_metadata`: `rlmm.config.remote.log.metadata.topic.NAME`. In Kafka
# these are settings of a plugin, known by a prefix that can be another. They are read when the topic is made,
# which may be long after the start: so they are checked at the start.
REMOTE_LOG_TOPIC_SETTINGS: Final[dict[str, Setting]] = read_table("""
min.isr  short null  1..
    Replicas that must have a record before it counts; 2 where there are three replicas, else 1.
num.partitions  int 50  1..
    Partitions, which stay as many as they are.
replication.factor  short null  1..
    Replicas; three, or one on each broker where there are fewer.
retention.ms  long -1  -1|1..
    Milliseconds that a record is kept, which must be longer than any tiered topic is; -1 is for ever.
""")


def remote_log_topic_setting(config: "BrokerConfig", name: str) -> int | None:
    """The value; None where the default depends on the cluster. SettingError where it is wrong."""
    setting = REMOTE_LOG_TOPIC_SETTINGS[name]
    full_name = _prefix(config) + name
    text = config.static.get(full_name)
    value = setting.default_value if text is None else parse(replace(setting, name=full_name), text)
    assert value is None or isinstance(value, int), "all of them are numbers"
    return value


def check_remote_log_topic(config: "BrokerConfig") -> None:
    """SettingError for what would keep the topic from being made, or from being written to."""
    values = {name: remote_log_topic_setting(config, name) for name in REMOTE_LOG_TOPIC_SETTINGS}
    least, replicas = values["min.isr"], values["replication.factor"]
    if least is not None and replicas is not None and least > replicas:
        raise SettingError(
            f"{_prefix(config)}min.isr", f"{least} must not be above replication.factor, {replicas}"
        )


def _prefix(config: "BrokerConfig") -> str:
    return config.str("remote.log.metadata.manager.impl.prefix") + "remote.log.metadata.topic."
