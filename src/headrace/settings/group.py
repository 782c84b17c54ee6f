"""The settings of one group. `<` names the broker setting that decides where it is silent (see table.py)."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

GROUP: Final[dict[str, Setting]] = read_table("""
consumer.assignment.interval.ms  int 1000  0..  < group.consumer.assignment.interval.ms
    Milliseconds between two assignments of the group.
consumer.heartbeat.interval.ms  int 5000  1..  < group.consumer.heartbeat.interval.ms
    Milliseconds between two heartbeats that members are told to send.
consumer.session.timeout.ms  int 45000  1..  < group.consumer.session.timeout.ms
    Milliseconds without a heartbeat after which a member is out of the group.
errors.deadletterqueue.copy.record.enable  boolean false
    Whether key, value and headers of a share group's dead record go to its dead-letter queue, too.
errors.deadletterqueue.topic.name  string ""
    Topic for the records that a share group rejected or gave up; none where it is empty.
headrace.share.breaker.pause.ms  int 60000  1..
    Milliseconds without deliveries after headrace.share.breaker.records records were given up.
headrace.share.breaker.records  int 0  0..
    Records of a partition given up in a row, none accepted, after which deliveries pause; 0 is no such limit.
headrace.share.deliver.at  boolean false
    Whether a record with the header headrace-deliver-at-ms (milliseconds since 1970) rests until then.
headrace.share.key.order  boolean false
    Whether a record waits until those of its key before it in the partition are acknowledged or given up.
headrace.share.key.order.max.records  int 5000  1..
    Records of a partition whose keys are known at a time, of a share group with headrace.share.key.order.
headrace.share.retry.backoff.max.ms  int 60000  0..
    Most milliseconds that a record of a share group rests before it is handed out again.
headrace.share.retry.backoff.ms  int 0  0..
    Milliseconds that a record rests when it came back, give or take a fifth; twice as many each further time.
share.assignment.interval.ms  int 1000  0..  < group.share.assignment.interval.ms
    Milliseconds between two assignments of the share group.
share.auto.offset.reset  string latest  offset-reset
    Where a new share group begins: latest, earliest, or by_duration:PnDTnHnMn.nS back in time.
share.delivery.count.limit  int 5  2..  < group.share.delivery.count.limit
    Times that a record is handed out before it is given up.
share.heartbeat.interval.ms  int 5000  1..  < group.share.heartbeat.interval.ms
    Milliseconds between two heartbeats that members are told to send.
share.isolation.level  string read_uncommitted  {read_committed,read_uncommitted}
    Whether the group sees records of transactions that are open or were aborted.
share.partition.max.record.locks  int 2000  100..  < group.share.partition.max.record.locks
    Most records of one partition that are handed out and not yet answered.
share.record.lock.duration.ms  int 30000  1000..  < group.share.record.lock.duration.ms
    Milliseconds that a handed-out record waits for its answer before others get it.
share.renew.acknowledge.enable  boolean true
    Whether a member may ask for more time with a record.
share.session.timeout.ms  int 45000  1..  < group.share.session.timeout.ms
    Milliseconds without a heartbeat after which a member is out of the group.
streams.assignment.interval.ms  int 1000  0..  < group.streams.assignment.interval.ms
    Milliseconds between two assignments of the streams group.
streams.heartbeat.interval.ms  int 5000  1..  < group.streams.heartbeat.interval.ms
    Milliseconds between two heartbeats that members are told to send.
streams.initial.rebalance.delay.ms  int 3000  0..  < group.streams.initial.rebalance.delay.ms
    Milliseconds that a new group waits for more members before it assigns.
streams.num.standby.replicas  int 0  0..  < group.streams.num.standby.replicas
    Copies of each state store that stand by.
streams.session.timeout.ms  int 45000  1..  < group.streams.session.timeout.ms
    Milliseconds without a heartbeat after which a member is out of the group.
""")
