"""The settings of a topic. `<` names the broker settings that decide where it says nothing (see table.py)."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

TOPIC: Final[dict[str, Setting]] = read_table("""
cleanup.policy  list delete  {compact,delete}  < log.cleanup.policy
    What becomes of old segments: delete drops them by age and size, compact keeps each key's last record.
compression.gzip.level  int -1  -1|1..9  < compression.gzip.level
    Level when the broker compresses with gzip, 1 (fast) to 9 (small); -1 leaves it to gzip.
compression.lz4.level  int 9  1..17  < compression.lz4.level
    Level when the broker compresses with lz4, 1 (fast) to 17 (small).
compression.type  string producer  {uncompressed,zstd,lz4,snappy,gzip,producer}  < compression.type
    How batches are stored; producer keeps them as they came.
compression.zstd.level  int 3  -131072..22  < compression.zstd.level
    Level when the broker compresses with zstd, below 0 (fastest) to 22 (smallest).
delete.retention.ms  long 86400000  0..  < log.cleaner.delete.retention.ms
    Milliseconds that compaction keeps a delete marker, so that a slow reader still sees it.
file.delete.delay.ms  long 60000  0..  < log.segment.delete.delay.ms
    Milliseconds between taking a segment out of the log and removing its files.
flush.messages  long 9223372036854775807  1..  < log.flush.interval.messages
    Records after which the log is synced to disk; leave it to replication and to recovery where possible.
flush.ms  long 9223372036854775807  0..  < log.flush.interval.ms log.flush.scheduler.interval.ms
    Milliseconds after which unsynced records are synced to disk.
follower.replication.throttled.replicas  list ""  throttled
    Replicas (PARTITION:BROKER, or *) whose fetching is held to follower.replication.throttled.rate.
index.interval.bytes  int 4096  0..  < log.index.interval.bytes
    Bytes of log between two entries of the offset index; fewer find faster and take more memory.
internal.segment.bytes  int null  internal
    Segment size without the lower limit of segment.bytes, in bytes; for tests.
leader.replication.throttled.replicas  list ""  throttled
    Replicas (PARTITION:BROKER, or *) whose serving is held to leader.replication.throttled.rate.
local.retention.bytes  long -2  -2..  < log.local.retention.bytes
    Bytes of a tiered partition kept on local disk; -2 means retention.bytes, -1 means no limit.
local.retention.ms  long -2  -2..  < log.local.retention.ms
    Milliseconds that tiered segments stay on local disk; -2 means retention.ms, -1 means no limit.
max.compaction.lag.ms  long 9223372036854775807  1..  < log.cleaner.max.compaction.lag.ms
    Milliseconds after which a record must have been looked at by compaction.
max.message.bytes  int 1048588  0..  < message.max.bytes
    Largest batch that is taken, in bytes, after compression where there is any.
message.timestamp.after.max.ms  long 3600000  0..  < log.message.timestamp.after.max.ms
    Milliseconds by which a record's time may lie ahead of the broker's clock (CreateTime only).
message.timestamp.before.max.ms  long 9223372036854775807  0..  < log.message.timestamp.before.max.ms
    Milliseconds by which a record's time may lie behind the broker's clock (CreateTime only).
message.timestamp.type  string CreateTime  {CreateTime,LogAppendTime}  < log.message.timestamp.type
    Whose time a record carries: its producer's, or the broker's at the append.
min.cleanable.dirty.ratio  double 0.5  0..1  < log.cleaner.min.cleanable.ratio
    Share of a log that must be uncompacted before compaction takes it up.
min.compaction.lag.ms  long 0  0..  < log.cleaner.min.compaction.lag.ms
    Milliseconds that a record is safe from compaction.
min.insync.replicas  int 1  1..  < min.insync.replicas
    Replicas that must hold a record before acks=all succeeds; with fewer in sync such writes are refused.
preallocate  boolean false  < log.preallocate
    Whether a new segment's file gets its full size on disk at once.
remote.log.copy.disable  boolean false
    Whether a tiered topic stops copying segments to the remote store, keeping what is there readable.
remote.log.delete.on.disable  boolean false
    Whether switching tiering off deletes the topic's data in the remote store.
remote.storage.enable  boolean false
    Whether finished segments are copied to the remote store.
retention.bytes  long -1  < log.retention.bytes
    Bytes that a partition may grow to before its oldest segments are dropped; -1 is no limit.
retention.ms  long 604800000  -1..  < log.retention.ms log.retention.minutes*60000 log.retention.hours*3600000
    Milliseconds that a segment is kept after its last record; -1 is for ever.
segment.bytes  int 1073741824  1048576..  < log.segment.bytes
    Size at which a segment is finished and a new one begun, in bytes.
segment.index.bytes  int 10485760  4..  < log.index.size.max.bytes
    Largest size of a segment's offset index, in bytes.
segment.jitter.ms  long 0  0..  < log.roll.jitter.ms log.roll.jitter.hours*3600000
    Most milliseconds taken off segment.ms by chance, so that segments do not all roll at once.
segment.ms  long 604800000  1..  < log.roll.ms log.roll.hours*3600000
    Age at which a segment is finished even when it is not full, in milliseconds.
unclean.leader.election.enable  boolean false  < unclean.leader.election.enable
    Whether a replica that may lack records can become leader when no complete one is left.
""")
