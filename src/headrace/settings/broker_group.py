"""Consumer and streams groups, and the topic of committed offsets. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_GROUP: Final[dict[str, Setting]] = read_table("""
group.consumer.assignment.interval.ms  int 1000  0..  cluster-wide
    Milliseconds between two assignments of a consumer group.
group.consumer.assignors  list uniform,range  filled
    Assignors that the broker offers; the first is used where a consumer names none.
group.consumer.heartbeat.interval.ms  int 5000  1..
    Milliseconds between two heartbeats of a consumer group's members; left alone, fewer where they are few.
group.consumer.max.assignment.interval.ms  int 15000  0..
    Upper limit of a group's own consumer.assignment.interval.ms.
group.consumer.max.heartbeat.interval.ms  int 15000  1..
    Upper limit of a group's own consumer.heartbeat.interval.ms.
group.consumer.max.session.timeout.ms  int 60000  1..
    Upper limit of a group's own consumer.session.timeout.ms.
group.consumer.max.size  int 2147483647  1..
    Most members of a consumer group.
group.consumer.migration.policy  string bidirectional  {disabled,downgrade,upgrade,bidirectional}  any-case
    Which way live groups may change between the classic and the new protocol.
group.consumer.min.assignment.interval.ms  int 0  0..
    Lower limit of a group's own consumer.assignment.interval.ms.
group.consumer.min.heartbeat.interval.ms  int 5000  1..
    Lower limit of a group's own consumer.heartbeat.interval.ms.
group.consumer.min.session.timeout.ms  int 45000  1..
    Lower limit of a group's own consumer.session.timeout.ms.
group.consumer.regex.refresh.interval.ms  int 600000  10000..  internal
    Milliseconds between two looks which topics a group's pattern matches.
group.consumer.session.timeout.ms  int 45000  1..
    Milliseconds without a heartbeat after which a consumer is out of its group.
group.coordinator.append.linger.ms  int -1  -1..
    Milliseconds that changes of groups are gathered for one write; -1 fits it to the load.
group.coordinator.background.threads  int 2  high  1..
    Threads that coordinators use for work in the background.
    No effect: coordinators run on the event loop.
group.coordinator.cached.buffer.max.bytes  int 1048588  524288..  cluster-wide
    Largest write buffer that a group coordinator keeps for use again, in bytes.
    No effect: buffers are not kept.
group.coordinator.rebalance.protocols  list classic,consumer,streams  {consumer,classic,share,streams}  filled
    Group protocols that the broker offers.
group.coordinator.threads  int 4  high  1..
    Threads of the group coordinator.
    No effect: coordinators run on the event loop.
group.initial.rebalance.delay.ms  int 500
    Milliseconds that a new classic group waits for more members, from each one on, before it assigns.
group.max.session.timeout.ms  int 1800000
    Longest session timeout that a classic member may ask for, in milliseconds.
group.max.size  int 2147483647  1..
    Most members of a classic group.
group.min.session.timeout.ms  int 6000
    Shortest session timeout that a classic member may ask for, in milliseconds.
group.streams.assignment.interval.ms  int 1000  0..  cluster-wide
    Milliseconds between two assignments of a streams group.
group.streams.heartbeat.interval.ms  int 5000  1..
    Milliseconds between two heartbeats that a streams group's members are told to send.
group.streams.initial.rebalance.delay.ms  int 3000  0..
    Milliseconds that a new streams group waits for more members before it assigns.
group.streams.max.assignment.interval.ms  int 15000  0..
    Upper limit of a group's own streams.assignment.interval.ms.
group.streams.max.heartbeat.interval.ms  int 15000  1..
    Upper limit of a group's own streams.heartbeat.interval.ms.
group.streams.max.session.timeout.ms  int 60000  1..
    Upper limit of a group's own streams.session.timeout.ms.
group.streams.max.size  int 2147483647  1..
    Most members of a streams group.
group.streams.max.standby.replicas  int 2  0..
    Upper limit of a group's own streams.num.standby.replicas.
group.streams.min.assignment.interval.ms  int 0  0..
    Lower limit of a group's own streams.assignment.interval.ms.
group.streams.min.heartbeat.interval.ms  int 5000  1..
    Lower limit of a group's own streams.heartbeat.interval.ms.
group.streams.min.session.timeout.ms  int 45000  1..
    Lower limit of a group's own streams.session.timeout.ms.
group.streams.num.standby.replicas  int 0  0..
    Copies of each state store that stand by.
group.streams.session.timeout.ms  int 45000  1..
    Milliseconds without a heartbeat after which a streams member is out of its group.
offset.metadata.max.bytes  int 4096  high
    Largest note that a consumer may store with an offset, in bytes.
offsets.commit.timeout.ms  int 5000  high  1..
    Milliseconds that a commit waits for all replicas of the offsets topic.
offsets.load.buffer.size  int 5242880  high  1..
    Bytes read at a time when a coordinator loads the offsets topic.
offsets.retention.check.interval.ms  long 600000  high  1..
    Milliseconds between two looks for offsets that have expired.
offsets.retention.minutes  int 10080  high  1..
    Minutes that a group's offsets are kept after its last member left.
offsets.topic.compression.codec  int 0  high
    Codec of the offsets topic's records by its number; 0 is none.
offsets.topic.num.partitions  int 50  high  1..
    Partitions of the offsets topic; not to be changed once it is there.
offsets.topic.replication.factor  short 3  high  1..
    Replicas of the offsets topic.
offsets.topic.segment.bytes  int 104857600  high  1..
    Segment size of the offsets topic in bytes; small ones load faster.
""")
