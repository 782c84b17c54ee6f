"""The settings of producers, consumers and administrators. Names and defaults are Kafka 4.3's.

The notation is that of `settings.table`. Settings that Kafka has and these clients have no use for (metrics
reporters, Java class names, SASL, TLS) are not taken: a wrong promise would be worse than an error.
"""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import joined, read_table

CLIENT: Final = read_table("""
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
""")

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

TABLES: Final[dict[str, dict[str, Setting]]] = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}
