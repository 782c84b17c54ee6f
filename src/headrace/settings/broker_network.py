"""Listeners, connections, the limits of requests, quotas and metrics. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_NETWORK: Final[dict[str, Setting]] = read_table("""
advertised.listeners  list null  high  filled
    Addresses that clients are told to use, where they differ from `listeners`.
alter.log.dirs.replication.quota.window.num  int 11  low  1..
    Windows that the quota of moves between folders looks back on.
alter.log.dirs.replication.quota.window.size.seconds  int 1  low  1..
    Seconds of one window of the quota of moves between folders.
background.threads  int 10  high  1..  cluster-wide
    Threads for work in the background.
    No effect: a node is one event loop; threads are started for blocking work only.
client.quota.callback.class  class null  low
    Class that decides about client quotas.
    No effect: a Java class cannot be loaded here.
connections.max.idle.ms  long 600000
    Milliseconds of silence after which a connection is closed.
controller.quota.window.num  int 11  low  1..
    Windows that the quota of topic changes looks back on.
controller.quota.window.size.seconds  int 1  low  1..
    Seconds of one window of the quota of topic changes.
delete.records.purgatory.purge.interval.requests  int 1
    Requests after which finished waiting record deletions are swept.
    No effect: finished waits are removed at once.
early.start.listeners  list null  high
    Listeners that may open before the authorizer has loaded; the controller's ones by default.
fetch.max.bytes  int 57671680  1024..
    Most bytes in one answer to a fetch; one batch is always sent.
fetch.purgatory.purge.interval.requests  int 1000
    Requests after which finished waiting fetches are swept.
    No effect: finished waits are removed at once.
inter.broker.listener.name  string null
    The listener that brokers use among themselves.
kafka.metrics.polling.interval.secs  int 10  low  1..
    Seconds between two readings of the Yammer metrics.
    No effect: there are no JVM metrics here.
kafka.metrics.reporters  list ""  low
    Classes that take the Yammer metrics.
    No effect: a Java class cannot be loaded here.
listener.security.protocol.map  string \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT  low  per-broker
    Which security protocol each listener name stands for, as NAME:PROTOCOL.
listeners  list PLAINTEXT://:9092  high  filled  per-broker
    Where the node listens, as NAME://HOST:PORT; no host is every address, port 0 a free one.
max.connection.creation.rate  int 2147483647  0..  cluster-wide
    Most new connections a second.
max.connections  int 2147483647  0..  cluster-wide
    Most connections at once.
max.connections.per.ip  int 2147483647  0..  cluster-wide
    Most connections at once from one address.
max.connections.per.ip.overrides  string ""  cluster-wide
    Other limits for single addresses, as ADDRESS:COUNT.
max.incremental.fetch.session.cache.slots  int 1000  0..
    Most fetch sessions that are remembered.
max.request.partition.size.limit  int 2000  1..
    Most partitions in one answer to DescribeTopicPartitions.
metric.reporters  list org.apache.kafka.common.metrics.JmxReporter  low  cluster-wide
    Classes that take the metrics.
    No effect: a Java class cannot be loaded here.
metrics.num.samples  int 2  low  1..
    Samples that a rate is computed from.
    No effect: metrics are counted without samples.
metrics.recording.level  string INFO  low
    How much is measured: INFO, DEBUG or TRACE.
    No effect: everything that is measured is always measured.
metrics.sample.window.ms  long 30000  low  1..
    Milliseconds of one sample.
    No effect: metrics are counted without samples.
num.io.threads  int 8  high  1..  cluster-wide
    Threads that handle requests.
    No effect: a node is one event loop; run more nodes to use more cores.
num.network.threads  int 3  high  1..  cluster-wide
    Threads that read and write sockets.
    No effect: a node is one event loop; run more nodes to use more cores.
producer.purgatory.purge.interval.requests  int 1000
    Requests after which finished waiting produces are swept.
    No effect: finished waits are removed at once.
queued.max.request.bytes  long -1
    Most bytes of requests that wait for a handler; -1 is no limit.
queued.max.requests  int 500  high  1..
    Most requests that wait for a handler.
    No effect: requests are handled as they are read; backpressure stops the reading.
quota.window.num  int 11  low  1..
    Windows that a client's quota looks back on.
quota.window.size.seconds  int 1  low  1..
    Seconds of one window of a client's quota.
replication.quota.window.num  int 11  low  1..
    Windows that the replication quota looks back on.
replication.quota.window.size.seconds  int 1  low  1..
    Seconds of one window of the replication quota.
request.timeout.ms  int 30000  high
    Milliseconds that a node waits for an answer to its own requests.
security.inter.broker.protocol  string PLAINTEXT  {PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL}
    Security protocol between brokers, where inter.broker.listener.name is not given.
share.fetch.purgatory.purge.interval.requests  int 1000
    Requests after which finished waiting share fetches are swept.
    No effect: finished waits are removed at once.
socket.connection.setup.timeout.max.ms  long 30000
    Most milliseconds that opening a connection may take after repeated failures.
socket.connection.setup.timeout.ms  long 10000
    Milliseconds that opening a connection may take at first.
socket.listen.backlog.size  int 50  1..
    Connections that the system may hold until they are accepted.
socket.receive.buffer.bytes  int 102400  high
    Receive buffer of a socket in bytes; -1 leaves it to the system.
socket.request.max.bytes  int 104857600  high  1..
    Largest request that is taken, in bytes.
socket.send.buffer.bytes  int 102400  high
    Send buffer of a socket in bytes; -1 leaves it to the system.
telemetry.max.bytes  int 1048576  low  1..
    Largest push of client metrics that is taken, in bytes.
""")
