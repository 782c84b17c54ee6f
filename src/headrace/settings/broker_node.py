"""Who a node is, and its part in the metadata quorum. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_NODE: Final[dict[str, Setting]] = read_table("""
alter.config.policy.class.name  class null  low
    Class that may refuse changes of settings.
    No effect: a Java class cannot be loaded here, and a node that is given one does not start.
broker.heartbeat.interval.ms  int 2000
    Milliseconds between two heartbeats of a broker to the controller.
broker.id  int -1  high
    The node's number by its older name; node.id is the one to use.
broker.rack  string null
    Where the broker stands (rack, zone); replicas of a partition are spread over different ones.
broker.session.timeout.ms  int 9000
    Milliseconds without a heartbeat after which the controller fences a broker.
config.providers  list ""  low  cluster-wide
    Names of sources that values such as ${file:…} are taken from.
controlled.shutdown.enable  boolean true
    Whether a broker that stops first hands its leaderships over.
controller.listener.names  list required  high  filled
    Names of the listeners that the controller serves; brokers use the first.
controller.performance.always.log.threshold.ms  long 2000  0..  internal
    A controller step that takes longer than this many milliseconds is logged.
controller.performance.sample.period.ms  long 60000  100..  internal
    Milliseconds between two log lines about the controller's speed.
controller.quorum.append.linger.ms  int 25  0..
    Milliseconds that the metadata leader waits to write several changes with one sync.
controller.quorum.auto.join.enable  boolean false  low
    Whether a controller adds itself to the voters of its cluster.
controller.quorum.bootstrap.servers  list ""  high  addresses
    Addresses (HOST:PORT) at which the quorum is found when voters are kept in its log.
controller.quorum.election.backoff.max.ms  int 1000  high  0..
    Most milliseconds that a candidate waits, by chance, before it stands again.
controller.quorum.election.timeout.ms  int 1000  high  0..
    Milliseconds that an election may take before the next one begins.
controller.quorum.fetch.max.bytes  int 1048576  low  1..
    Most bytes of metadata log in one fetch; one batch is always sent.
controller.quorum.fetch.snapshot.max.bytes  int 1048576  low  1..
    Most bytes of a metadata snapshot in one fetch.
controller.quorum.fetch.timeout.ms  int 2000  high  0..
    Milliseconds without contact after which a voter stands for election, or a leader resigns.
controller.quorum.request.timeout.ms  int 2000  0..
    Milliseconds that a quorum member waits for an answer.
controller.quorum.retry.backoff.ms  int 20  low  0..
    Milliseconds before a failed quorum request is sent again.
controller.quorum.voters  list ""  high  voters
    The fixed voters as ID@HOST:PORT; leave it empty where voters are kept in the log.
controller.socket.timeout.ms  int 30000
    Milliseconds that a broker waits for the controller's answer.
create.topic.policy.class.name  class null  low
    Class that may refuse the creation of topics.
    No effect: a Java class cannot be loaded here, and a node that is given one does not start.
initial.broker.registration.timeout.ms  int 60000
    Milliseconds that a starting broker tries to register before it gives up.
internal.metadata.delete.delay.millis  long 60000  low  internal
    Milliseconds before a dropped metadata file is removed; for tests.
internal.metadata.log.segment.bytes  int null  low  internal
    Size of a metadata log segment without its lower limit, in bytes; for tests.
internal.metadata.max.batch.size.in.bytes  int 8388608  low  internal
    Largest batch of the metadata log, in bytes; for tests.
leader.imbalance.check.interval.seconds  long 300  high  1..
    Seconds between two looks whether leaders should go back to their first replicas.
metadata.log.dir  string null  high
    Folder of the metadata log; the first of log.dirs where it is not given.
metadata.log.max.record.bytes.between.snapshots  long 20971520  high  1..
    Bytes of metadata log after which a snapshot is written.
metadata.log.max.snapshot.interval.ms  long 3600000  high  0..
    Milliseconds after which a snapshot is written if there is anything new; 0 is never.
metadata.log.segment.bytes  int 1073741824  high  8388608..
    Size at which a metadata log segment is finished, in bytes.
metadata.log.segment.ms  long 604800000  high
    Age at which a metadata log segment is finished, in milliseconds.
metadata.max.idle.interval.ms  int 500  low  0..
    Milliseconds between two no-op records of the active controller; 0 writes none.
metadata.max.retention.bytes  long 104857600  high
    Bytes that the metadata log and its snapshots may take before old ones are removed.
metadata.max.retention.ms  long 604800000  high
    Milliseconds that old metadata segments and snapshots are kept.
node.id  int required  high  0..
    The node's number, one for all its roles and different for each node.
process.roles  list required  high  {broker,controller}  filled
    What the node does: broker, controller, or both.
server.max.startup.time.ms  long 9223372036854775807  0..  internal
    Milliseconds that a start may take before the node gives up; for tests.
unclean.leader.election.interval.ms  long 300000  1..  internal
    Milliseconds between two looks for partitions that only an unclean election can help.
unstable.api.versions.enable  boolean false  high  internal
    Whether request versions that are still in the making are offered; for tests.
unstable.feature.versions.enable  boolean false  high  internal
    Whether feature levels that are still in the making are offered; for tests.
""")
