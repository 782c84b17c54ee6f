"""Settings that stand outside Kafka's own table of a broker's settings. The notation: see table.py.

BROKER_OTHER: limits that can only be set while a broker runs, what Kafka's StandardAuthorizer reads, and the
protocol version that consoles still ask for. LEFTOVERS: what older Kafkas knew, so that an old file works as
it does with Kafka 4, which ignores them; they are taken and never shown.
"""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_OTHER: Final[dict[str, Setting]] = read_table("""
allow.everyone.if.no.acl.found  boolean false
    Whether a resource that no rule speaks of is open to everyone.
follower.replication.throttled.rate  long 9223372036854775807  0..  cluster-wide
    Bytes a second for replicas that follower.replication.throttled.replicas names.
inter.broker.protocol.version  string 4.3-IV0
    The protocol that brokers speak among themselves, for consoles that ask for it.
    No effect: metadata.version, a feature of the cluster, has taken its place.
leader.replication.throttled.rate  long 9223372036854775807  0..  cluster-wide
    Bytes a second for replicas that leader.replication.throttled.replicas names.
replica.alter.log.dirs.io.max.bytes.per.second  long 9223372036854775807  0..  cluster-wide
    Bytes a second for moving replicas between folders of a broker.
super.users  string ""
    Users that no rule holds back, as User:NAME with ; between them.
""")

_NO_ZOOKEEPER: Final = "there is no ZooKeeper."
_GONE: Final = "Kafka has dropped it as well."

LEFTOVERS: Final[dict[str, str]] = {
    "auto.include.jmx.reporter": _GONE,
    "broker.id.generation.enable": _NO_ZOOKEEPER,
    "control.plane.listener.name": _GONE,
    "controlled.shutdown.max.retries": _GONE,
    "controlled.shutdown.retry.backoff.ms": _GONE,
    "delegation.token.master.key": "it is now called delegation.token.secret.key.",
    "leader.imbalance.per.broker.percentage": _GONE,
    "log.message.downconversion.enable": _GONE,
    "log.message.format.version": _GONE,
    "log.message.timestamp.difference.max.ms": "see log.message.timestamp.before.max.ms and .after.max.ms.",
    "offsets.commit.required.acks": _GONE,
    "password.encoder.cipher.algorithm": _NO_ZOOKEEPER,
    "password.encoder.iterations": _NO_ZOOKEEPER,
    "password.encoder.key.length": _NO_ZOOKEEPER,
    "password.encoder.keyfactory.algorithm": _NO_ZOOKEEPER,
    "password.encoder.old.secret": _NO_ZOOKEEPER,
    "password.encoder.secret": _NO_ZOOKEEPER,
    "reserved.broker.max.id": _NO_ZOOKEEPER,
    "zookeeper.clientCnxnSocket": _NO_ZOOKEEPER,
    "zookeeper.connect": _NO_ZOOKEEPER,
    "zookeeper.connection.timeout.ms": _NO_ZOOKEEPER,
    "zookeeper.max.in.flight.requests": _NO_ZOOKEEPER,
    "zookeeper.metadata.migration.enable": _NO_ZOOKEEPER,
    "zookeeper.metadata.migration.min.batch.size": _NO_ZOOKEEPER,
    "zookeeper.session.timeout.ms": _NO_ZOOKEEPER,
    "zookeeper.set.acl": _NO_ZOOKEEPER,
}
"""Names that older Kafkas knew, and why each has no effect. Any zookeeper.ssl.* belongs to them, too."""
