"""Topics as they are made, and their logs on disk. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_LOG: Final[dict[str, Setting]] = read_table("""
auto.create.topics.enable  boolean true  high
    Whether a topic is made when a client first asks for it.
compression.gzip.level  int -1  -1|1..9  cluster-wide
    Level when the broker compresses with gzip, 1 (fast) to 9 (small); -1 leaves it to gzip.
compression.lz4.level  int 9  1..17  cluster-wide
    Level when the broker compresses with lz4, 1 (fast) to 17 (small).
compression.type  string producer  high  {uncompressed,zstd,lz4,snappy,gzip,producer}  cluster-wide
    How batches are stored; producer keeps them as they came.
compression.zstd.level  int 3  -131072..22  cluster-wide
    Level when the broker compresses with zstd, below 0 (fastest) to 22 (smallest).
cordoned.log.dirs  list ""  per-broker
    Folders out of log.dirs that get no new partitions; * is all of them.
delete.topic.enable  boolean true  high
    Whether topics can be deleted.
log.cleaner.backoff.ms  long 15000  0..  cluster-wide
    Milliseconds that the cleaner rests when there is nothing to compact.
log.cleaner.dedupe.buffer.size  long 134217728  cluster-wide
    Memory for the keys of one compaction, in bytes.
log.cleaner.delete.retention.ms  long 86400000  0..  cluster-wide
    Milliseconds that compaction keeps a delete marker, so that a slow reader still sees it.
log.cleaner.enable  boolean true
    Whether compaction runs at all.
log.cleaner.io.buffer.load.factor  double 0.9  cluster-wide
    How full the memory for keys may become, as a share of it.
log.cleaner.io.buffer.size  int 524288  0..  cluster-wide
    Memory for reading and writing in compaction, in bytes.
log.cleaner.io.max.bytes.per.second  double 1.7976931348623157E308  cluster-wide
    Most bytes that compaction reads and writes in a second.
log.cleaner.max.compaction.lag.ms  long 9223372036854775807  1..  cluster-wide
    Milliseconds after which a record must have been looked at by compaction.
log.cleaner.min.cleanable.ratio  double 0.5  0..1  cluster-wide
    Share of a log that must be uncompacted before compaction takes it up.
log.cleaner.min.compaction.lag.ms  long 0  0..  cluster-wide
    Milliseconds that a record is safe from compaction.
log.cleaner.threads  int 1  0..  cluster-wide
    Threads that compact.
log.cleanup.policy  list delete  {compact,delete}  cluster-wide
    What becomes of old segments: delete drops them, compact keeps each key's last record.
log.dir  list /tmp/kafka-logs  high  filled
    Folder of the logs, where log.dirs is not given.
log.dir.failure.timeout.ms  long 30000  low  1..
    Milliseconds that a broker with a failed folder may be out of the controller's reach.
log.dirs  list null  high  filled
    Folders of the logs; partitions are spread over them.
log.flush.interval.messages  long 9223372036854775807  high  1..  cluster-wide
    Records after which a log is synced to disk.
log.flush.interval.ms  long null  high  cluster-wide  < log.flush.scheduler.interval.ms
    Milliseconds after which unsynced records are synced; log.flush.scheduler.interval.ms where empty.
log.flush.offset.checkpoint.interval.ms  int 60000  high  0..
    Milliseconds between two writings of the point up to which logs are synced.
log.flush.scheduler.interval.ms  long 9223372036854775807  high
    Milliseconds between two looks for logs that must be synced.
log.flush.start.offset.checkpoint.interval.ms  int 60000  high  0..
    Milliseconds between two writings of where logs begin.
log.index.interval.bytes  int 4096  0..  cluster-wide
    Bytes of log between two entries of the offset index.
log.index.size.max.bytes  int 10485760  4..  cluster-wide
    Largest size of a segment's offset index, in bytes.
log.initial.task.delay.ms  long 30000  low  0..  internal
    Milliseconds before retention, syncing and checkpoints begin after a start; for tests.
log.local.retention.bytes  long -2  -2..  cluster-wide
    Bytes of a tiered partition kept on local disk; -2 means log.retention.bytes.
log.local.retention.ms  long -2  -2..  cluster-wide
    Milliseconds that tiered segments stay on local disk; -2 means log.retention.ms.
log.message.timestamp.after.max.ms  long 3600000  0..  cluster-wide
    Milliseconds by which a record's time may lie ahead of the broker's clock.
log.message.timestamp.before.max.ms  long 9223372036854775807  0..  cluster-wide
    Milliseconds by which a record's time may lie behind the broker's clock.
log.message.timestamp.type  string CreateTime  {CreateTime,LogAppendTime}  cluster-wide
    Whose time a record carries: its producer's, or the broker's at the append.
log.preallocate  boolean false  cluster-wide
    Whether a new segment's file gets its full size on disk at once.
log.remote.copy.lag.bytes  long -1  -1..  cluster-wide
    Bytes of newer log after which a segment is copied to the remote store; -1 means the local limit.
log.remote.copy.lag.ms  long 0  -1..  cluster-wide
    Age at which a segment is copied to the remote store, in milliseconds; -1 means the local limit.
log.retention.bytes  long -1  high  cluster-wide
    Bytes that a partition may grow to before its oldest segments are dropped; -1 is no limit.
log.retention.check.interval.ms  long 300000  1..
    Milliseconds between two looks for segments to drop.
log.retention.hours  int 168  high
    Hours that a segment is kept after its last record; the finer units go before it.
log.retention.minutes  int null  high  < log.retention.hours*60
    Minutes that a segment is kept after its last record; log.retention.ms goes before it.
log.retention.ms  long null  high  cluster-wide  < log.retention.minutes*60000 log.retention.hours*3600000
    Milliseconds that a segment is kept after its last record; -1 is for ever.
log.roll.hours  int 168  high  1..
    Age at which a segment is finished even when it is not full, in hours; log.roll.ms goes before it.
log.roll.jitter.hours  int 0  high  0..
    Most hours taken off that age by chance; log.roll.jitter.ms goes before it.
log.roll.jitter.ms  long null  high  cluster-wide  < log.roll.jitter.hours*3600000
    Most milliseconds taken off that age by chance, so that segments do not all roll at once.
log.roll.ms  long null  high  cluster-wide  < log.roll.hours*3600000
    Age at which a segment is finished even when it is not full, in milliseconds.
log.segment.bytes  int 1073741824  high  1048576..  cluster-wide
    Size at which a segment is finished and a new one begun, in bytes.
log.segment.delete.delay.ms  long 60000  high  0..  cluster-wide
    Milliseconds between taking a segment out of the log and removing its files.
max.decompressed.message.bytes  int 2147483639  0..  cluster-wide  internal
    Largest record that a compressed batch may unpack to, in bytes; one that is larger is refused as invalid.
message.max.bytes  int 1048588  high  0..  cluster-wide
    Largest batch that is taken, in bytes, after compression where there is any.
num.partitions  int 1  1..
    Partitions of a topic that is made without saying how many.
num.recovery.threads.per.data.dir  int 2  high  1..  cluster-wide
    Threads for each folder that recover logs at a start.
""")
