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
headrace.audit.changes  boolean true
    Whether changes of the cluster are written to the audit trail: topics, settings, rules, users, quotas.
headrace.audit.file  string ""
    The file of the audit trail, a JSON object each line; without one there is no trail.
headrace.audit.reads  list ""
    Topics whose readers are written to the audit trail, each once in an hour; a name may end with *.
headrace.audit.refusals  boolean true
    Whether those who were refused are written to the audit trail, and logins that failed.
headrace.audit.topic  string ""
    The topic of the audit trail, in the place of a file: each event a record.
headrace.log.scrub.bytes.per.second  long 10485760  0..  cluster-wide
    How fast a log directory is read in search of damage at rest, after a start and then every week; 0 is off.
headrace.client.metrics.otlp.endpoint  string ""
    Where metrics that clients push (KIP-714) are handed on to as OTLP/HTTP, as http://collector:4318/v1/metrics.
headrace.client.metrics.otlp.headers  password null
    Headers of those requests, as NAME=VALUE with a comma between two: a key of the endpoint, for instance.
headrace.metrics.listener  string ""  high
    Where /metrics and /health are served: HTTP://HOST:PORT, or HTTPS://HOST:PORT with ssl.*; empty: nowhere.
headrace.metrics.token  password null
    What scrapers must send as a bearer token; without one everybody who reaches the listener may read.
headrace.slow.request.ms  long 1000  1..
    A request that takes longer than this is told in the log, with who asked. Produce and Fetch are not timed.
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

NO_ZOOKEEPER: Final = "there is no ZooKeeper."
_GONE: Final = "Kafka has dropped it as well."

LEFTOVERS: Final[dict[str, str]] = {
    "auto.include.jmx.reporter": _GONE,
    "broker.id.generation.enable": NO_ZOOKEEPER,
    "control.plane.listener.name": _GONE,
    "controlled.shutdown.max.retries": _GONE,
    "controlled.shutdown.retry.backoff.ms": _GONE,
    "delegation.token.master.key": "it is now called delegation.token.secret.key.",
    "leader.imbalance.per.broker.percentage": _GONE,
    "log.message.downconversion.enable": _GONE,
    "log.message.format.version": _GONE,
    "log.message.timestamp.difference.max.ms": "see log.message.timestamp.before.max.ms and .after.max.ms.",
    "offsets.commit.required.acks": _GONE,
    "password.encoder.cipher.algorithm": NO_ZOOKEEPER,
    "password.encoder.iterations": NO_ZOOKEEPER,
    "password.encoder.key.length": NO_ZOOKEEPER,
    "password.encoder.keyfactory.algorithm": NO_ZOOKEEPER,
    "password.encoder.old.secret": NO_ZOOKEEPER,
    "password.encoder.secret": NO_ZOOKEEPER,
    "reserved.broker.max.id": NO_ZOOKEEPER,
    "zookeeper.clientCnxnSocket": NO_ZOOKEEPER,
    "zookeeper.connect": NO_ZOOKEEPER,
    "zookeeper.connection.timeout.ms": NO_ZOOKEEPER,
    "zookeeper.max.in.flight.requests": NO_ZOOKEEPER,
    "zookeeper.metadata.migration.enable": NO_ZOOKEEPER,
    "zookeeper.metadata.migration.min.batch.size": NO_ZOOKEEPER,
    "zookeeper.session.timeout.ms": NO_ZOOKEEPER,
    "zookeeper.set.acl": NO_ZOOKEEPER,
}
"""Names that older Kafkas knew, and why each has no effect. Any zookeeper.ssl.* belongs to them, too."""
