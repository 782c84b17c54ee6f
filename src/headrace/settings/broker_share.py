"""Share groups, and the coordinator that keeps their state. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_SHARE: Final[dict[str, Setting]] = read_table("""
errors.deadletterqueue.auto.create.topics.enable  boolean false  cluster-wide
    Whether a share group's dead-letter queue is made where there is none.
errors.deadletterqueue.topic.name.prefix  string dlq.  cluster-wide
    What the name of a dead-letter queue must begin with; any name will do where it is empty.
group.share.assignment.interval.ms  int 1000  0..  cluster-wide
    Milliseconds between two assignments of a share group.
group.share.assignors  list simple  filled
    The assignor of share groups; one only.
group.share.delivery.count.limit  int 5  2..10
    Times that a record is handed out before it is given up.
group.share.heartbeat.interval.ms  int 5000  1..
    Milliseconds between two heartbeats that a share group's members are told to send.
group.share.initialize.retry.interval.ms  int 30000  low  1..  internal
    Milliseconds before a failed start of a share group's state is tried again.
group.share.max.assignment.interval.ms  int 15000  0..
    Upper limit of a group's own share.assignment.interval.ms.
group.share.max.delivery.count.limit  int 10  5..25
    Upper limit of a group's own share.delivery.count.limit.
group.share.max.heartbeat.interval.ms  int 15000  1..
    Upper limit of a group's own share.heartbeat.interval.ms.
group.share.max.partition.max.record.locks  int 4000  2000..10000
    Upper limit of a group's own share.partition.max.record.locks.
group.share.max.record.lock.duration.ms  int 60000  30000..3600000
    Upper limit of a group's own share.record.lock.duration.ms.
group.share.max.session.timeout.ms  int 60000  1..
    Upper limit of a group's own share.session.timeout.ms.
group.share.max.share.sessions  int 2000  1..
    Most share sessions on one broker.
group.share.max.size  int 200  1..1000
    Most members of a share group.
group.share.min.assignment.interval.ms  int 0  0..
    Lower limit of a group's own share.assignment.interval.ms.
group.share.min.delivery.count.limit  int 2  2..5
    Lower limit of a group's own share.delivery.count.limit.
group.share.min.heartbeat.interval.ms  int 5000  1..
    Lower limit of a group's own share.heartbeat.interval.ms.
group.share.min.partition.max.record.locks  int 100  100..2000
    Lower limit of a group's own share.partition.max.record.locks.
group.share.min.record.lock.duration.ms  int 15000  1000..30000
    Lower limit of a group's own share.record.lock.duration.ms.
group.share.min.session.timeout.ms  int 45000  1..
    Lower limit of a group's own share.session.timeout.ms.
group.share.partition.max.record.locks  int 2000  100..10000
    Most records of one partition that are handed out and not yet answered.
group.share.persister.class.name  string \
org.apache.kafka.server.share.persister.DefaultStatePersister  internal
    Class that keeps the state of share groups.
    No effect: the state is always kept by the share coordinator.
group.share.record.lock.duration.ms  int 30000  1000..3600000
    Milliseconds that a handed-out record waits for its answer before others get it.
group.share.session.timeout.ms  int 45000  1..
    Milliseconds without a heartbeat after which a member is out of its share group.
share.coordinator.append.linger.ms  int -1  -1..
    Milliseconds that changes of share state are gathered for one write; -1 fits it to the load.
share.coordinator.cached.buffer.max.bytes  int 1048588  524288..  cluster-wide
    Largest write buffer that a share coordinator keeps for use again, in bytes.
    No effect: buffers are not kept.
share.coordinator.cold.partition.snapshot.interval.ms  int 300000  low  1..  internal
    Milliseconds between two snapshots of share state that nobody changes.
share.coordinator.load.buffer.size  int 5242880  high  1..
    Bytes read at a time when a coordinator loads the share state topic.
share.coordinator.snapshot.update.records.per.snapshot  int 500  0..500
    Updates of share state that are written between two snapshots.
share.coordinator.state.topic.compression.codec  int 0  high
    Codec of the share state topic's records by its number; 0 is none.
share.coordinator.state.topic.min.isr  short 2  high  1..
    The share state topic's min.insync.replicas.
share.coordinator.state.topic.num.partitions  int 50  high  1..
    Partitions of the share state topic; not to be changed once it is there.
share.coordinator.state.topic.prune.interval.ms  int 300000  low  1..  internal
    Milliseconds between two prunings of the share state topic.
share.coordinator.state.topic.replication.factor  short 3  high  1..
    Replicas of the share state topic.
share.coordinator.state.topic.segment.bytes  int 104857600  high  1..
    Segment size of the share state topic, in bytes.
share.coordinator.threads  int 1  1..
    Threads of the share coordinator.
    No effect: coordinators run on the event loop.
share.coordinator.write.timeout.ms  int 5000  high  1..
    Milliseconds that a write of share state waits for all replicas.
""")
