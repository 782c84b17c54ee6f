"""The settings of producers, consumers and admin clients. Names and defaults are Kafka 4.3's.

A client takes them as a mapping, as keyword arguments, or both:

    ClientConfig(PRODUCER, {"bootstrap.servers": "h:9092", "acks": "all"})
    ClientConfig(PRODUCER, {}, bootstrap_servers=["h:9092"], linger_ms=20)

Values may be texts, as in a file, or Python's own. A name that does not exist is an error that tells of the
nearest one which does. The notation of the tables is that of `settings.table`. Settings that Kafka has and
these clients have no use for (metrics reporters, Java class names) are not taken: a wrong promise would be
worse than an error.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.clients.errors import ClientError
from headrace.settings.broker_sasl import SASL_OF_CLIENTS
from headrace.settings.broker_tls import TLS_OF_CLIENTS
from headrace.settings.definition import (
    NO_DEFAULT,
    Setting,
    SettingError,
    TypedValues,
    parse,
    unknown_setting,
)
from headrace.settings.table import joined, read_table

DEFAULT_PORT: Final = 9092

CLIENT: Final = joined(
    read_table("""
bootstrap.servers  list required  high filled
    Brokers to ask first, as HOST:PORT; the others are learnt from them.
client.id  string ""
    A name for the brokers' logs and quotas.
metadata.max.age.ms  long 300000  low 0..
    Milliseconds after which metadata is asked for anew though nothing failed.
reconnect.backoff.ms  long 50  low 0..
    Milliseconds before the second attempt to connect to a broker; doubled for each further one.
reconnect.backoff.max.ms  long 1000  low 0..
    The most milliseconds between attempts to connect.
retry.backoff.ms  long 100  low 0..
    Milliseconds before a failed request is sent again; doubled for each further attempt.
retry.backoff.max.ms  long 1000  low 0..
    The most milliseconds before a failed request is sent again.
request.timeout.ms  int 30000  0..
    Milliseconds that a broker may take to answer.
socket.connection.setup.timeout.ms  long 10000  1..
    Milliseconds that connecting may take.
send.buffer.bytes  int -1  -1..
    The kernel's buffer for sending; -1 leaves it to the system.
receive.buffer.bytes  int -1  -1..
    The kernel's buffer for receiving; -1 leaves it to the system.
security.protocol  string PLAINTEXT  {plaintext,ssl,sasl_plaintext,sasl_ssl} any-case
    How brokers are talked to: as it is, or with TLS (SSL); with SASL_ before it this client logs in.
"""),
    TLS_OF_CLIENTS,
    SASL_OF_CLIENTS,
)

_API: Final = read_table("""
default.api.timeout.ms  int 60000  0..
    Milliseconds that a call without a time-out of its own may take.
""")

ADMIN: Final = joined(CLIENT, _API)

PRODUCER: Final = joined(
    CLIENT,
    read_table("""
acks  string all  {all,-1,0,1}
    Who must have a record before it counts: nobody (0), the leader (1), the in-sync set (all).
linger.ms  long 5  0..
    Milliseconds that a record waits for others of its batch.
batch.size  int 16384  0..
    Bytes of a batch; a larger record is a batch of its own.
buffer.memory  long 33554432  0..
    Bytes of records that may wait for their acknowledgement; beyond it `send` waits.
max.block.ms  long 60000  0..
    Milliseconds that `send` waits for memory or metadata.
delivery.timeout.ms  int 120000  0..
    Milliseconds after which a record that is not acknowledged has failed.
max.request.size  int 1048576  0..
    The largest request, and so the largest record.
max.in.flight.requests.per.connection  int 5  1..
    Requests without an answer to one broker; at most 5 with idempotence.
retries  int 2147483647  0..2147483647
    How often a batch is sent again, within delivery.timeout.ms.
compression.type  string none  {none,gzip,snappy,lz4,zstd}
    How batches are packed.
compression.gzip.level  int -1  -1..9
    Level for gzip; -1 is its own default.
compression.lz4.level  int 9  1..17
    Level for lz4.
compression.zstd.level  int 3  -131072..22
    Level for zstd.
enable.metrics.push  boolean true
    Whether this client pushes its metrics to a broker that has subscribed to them (KIP-714).
enable.idempotence  boolean true
    Whether every record is written once and in order, whatever is lost on the way.
transactional.id  string null
    The name under which this producer writes in transactions; it outlives the process.
transaction.timeout.ms  int 60000  1..
    Milliseconds after which the cluster aborts a transaction that is still open.
transaction.two.phase.commit.enable  boolean false
    Whether transactions may be left prepared, to be completed by another process, and never time out.
partitioner.class  string sticky  {sticky,round-robin}
    Where records go: by key and, without one, a batch to each partition (sticky); or to each in turn.
partitioner.ignore.keys  boolean false
    Whether keys say nothing about the partition.
partitioner.adaptive.partitioning.enable  boolean true
    Whether partitions whose brokers are quicker get more of the records without a key.
allow.auto.create.topics  boolean true
    Whether brokers may create a topic that is missing.
"""),
)

# The group and its brokers decide these: where a share group begins is a setting of the group.
_NOT_OF_SHARE_GROUPS: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "enable.auto.commit",
        "exclude.internal.topics",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "isolation.level",
        "max.partition.fetch.bytes",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)

CONSUMER: Final = joined(
    CLIENT,
    _API,
    read_table("""
group.id  string null  high
    The group to share partitions and offsets with.
group.instance.id  string null
    A name that makes this a static member: it keeps its partitions over a restart.
group.protocol  string classic  {classic,consumer} any-case
    How the group agrees: members among themselves (classic) or by its coordinator (consumer, KIP-848).
group.remote.assignor  string null
    With group.protocol=consumer: the coordinator's assignor.
partition.assignment.strategy  list range,cooperative-sticky  filled
    How a classic group shares partitions: range, roundrobin, sticky, cooperative-sticky.
client.rack  string ""
    Where this client is, so that it may read from a replica nearby.
auto.offset.reset  string latest  {earliest,latest,none} any-case
    Where to begin without a committed offset, or when it is out of range.
enable.metrics.push  boolean true
    Whether this client pushes its metrics to a broker that has subscribed to them (KIP-714).
enable.auto.commit  boolean true
    Whether positions are committed by themselves.
auto.commit.interval.ms  int 5000  0..
    Milliseconds between such commits.
fetch.min.bytes  int 1  0..
    Bytes that a broker waits for before it answers.
fetch.max.wait.ms  int 500  0..
    Milliseconds that a broker waits for them.
fetch.max.bytes  int 52428800  0..
    The most bytes of one answer, and of all that waits to be polled.
max.partition.fetch.bytes  int 1048576  0..
    The most bytes of one partition in an answer.
max.poll.records  int 500  1..
    The most records that one poll returns.
max.poll.interval.ms  int 300000  1..
    Milliseconds between polls after which a member counts as stuck and leaves its group.
session.timeout.ms  int 45000  1..
    Milliseconds without a heartbeat after which the group goes on without this member.
heartbeat.interval.ms  int 3000  1..
    Milliseconds between heartbeats.
isolation.level  string read_uncommitted  {read_uncommitted,read_committed} any-case
    Whether records of open and aborted transactions are seen.
check.crcs  boolean true
    Whether every batch's check sum is verified.
allow.auto.create.topics  boolean true
    Whether brokers may create a topic that is subscribed to and missing.
exclude.internal.topics  boolean true
    Whether a pattern leaves out the topics that brokers keep for themselves.
"""),
)

SHARE_CONSUMER: Final = joined(
    {name: CONSUMER[name] for name in CONSUMER if name not in _NOT_OF_SHARE_GROUPS},
    read_table("""
share.acknowledgement.mode  string implicit  {implicit,explicit} any-case
    Whether a poll accepts what the last one gave (implicit), or each record is acknowledged (explicit).
share.acquire.mode  string batch_optimized  {batch_optimized,record_limit} any-case
    Whether whole batches are handed out, or never more than max.poll.records (KIP-1206).
"""),
)

TABLES: Final[dict[str, dict[str, Setting]]] = {
    "producer": PRODUCER,
    "consumer": CONSUMER,
    "share consumer": SHARE_CONSUMER,
    "admin": ADMIN,
}


class ClientConfig(TypedValues):
    """Checked settings of one client."""

    def __init__(
        self, table: Mapping[str, Setting], settings: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        self.given = {**(settings or {}), **{name.replace("_", "."): value for name, value in more.items()}}
        # Without a call for each of a hundred settings: each task of a sink has a client of its own.
        self._values = {
            name: None if setting.default is NO_DEFAULT else setting.default
            for name, setting in table.items()
        }
        for name, value in self.given.items():
            if name not in table:
                raise unknown_setting(name, table, "client")
            if value is not None:
                self._values[name] = parse(table[name], _text(value))
        for name, setting in table.items():
            if setting.default is NO_DEFAULT and self._values[name] is None:
                raise SettingError(name, "it must be given")

    def was_given(self, name: str) -> bool:
        """Whether the user said it, as opposed to its default."""
        return self.given.get(name) is not None

    def replace(self, name: str, value: bool | int | str) -> None:
        """A default that follows from other settings."""
        assert name in self._values
        self._values[name] = value


def producer_config(settings: Mapping[str, Any] | None, **more: Any) -> ClientConfig:
    """Checked settings of a producer, with what follows from idempotence (KIP-679)."""
    config = ClientConfig(PRODUCER, settings, **more)
    is_transactional = config.get("transactional.id") is not None
    if is_transactional and not config.bool("enable.idempotence"):
        raise SettingError("transactional.id", "transactions need enable.idempotence=true")
    if config.bool("transaction.two.phase.commit.enable") and config.was_given("transaction.timeout.ms"):
        message = "transactions of two-phase commit never time out: do not set it"
        raise SettingError("transaction.timeout.ms", message)
    breaks = {
        "acks": config.str("acks") not in ("all", "-1"),
        "max.in.flight.requests.per.connection": config.int("max.in.flight.requests.per.connection") > 5,
        "retries": config.int("retries") == 0,
    }
    for name, is_broken in breaks.items():
        if is_broken and config.bool("enable.idempotence"):
            if is_transactional or config.was_given("enable.idempotence"):
                why = "transactional.id" if is_transactional else "enable.idempotence=true"
                raise SettingError(name, f"{config.get(name)!r} does not go with {why}")
            config.replace("enable.idempotence", False)
    least = config.int("linger.ms") + config.int("request.timeout.ms")
    if config.int("delivery.timeout.ms") < least:
        if config.was_given("delivery.timeout.ms"):
            message = f"it must be at least linger.ms + request.timeout.ms, {least}"
            raise SettingError("delivery.timeout.ms", message)
        config.replace("delivery.timeout.ms", least)
    return config


def consumer_config(settings: Mapping[str, Any] | None, **more: Any) -> ClientConfig:
    """Checked settings of a consumer."""
    config = ClientConfig(CONSUMER, settings, **more)
    if config.int("heartbeat.interval.ms") >= config.int("session.timeout.ms"):
        raise SettingError("heartbeat.interval.ms", "it must be less than session.timeout.ms")
    return config


def share_consumer_config(settings: Mapping[str, Any] | None, **more: Any) -> ClientConfig:
    """Checked settings of a share consumer."""
    config = ClientConfig(SHARE_CONSUMER, settings, **more)
    if not config.get("group.id"):
        raise SettingError("group.id", "a share consumer is a member of a group: give its name")
    return config


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value)


def parse_addresses(given: str | Iterable[str]) -> list[tuple[str, int]]:
    """HOST:PORT,HOST:PORT… as pairs; a missing port is Kafka's. ClientError for anything else."""
    items = given.split(",") if isinstance(given, str) else given
    addresses = []
    for item in filter(None, (part.strip() for part in items)):
        host, separator, port = item.rpartition(":")
        if not separator or item.endswith("]"):
            host, port = item, str(DEFAULT_PORT)
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ClientError(f"{item!r} is not an address: give HOST:PORT, as in 127.0.0.1:9092")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ClientError("no address of a broker is given: give HOST:PORT, as in 127.0.0.1:9092")
    return addresses
