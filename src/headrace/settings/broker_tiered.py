"""Segments in a remote store. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_TIERED: Final[dict[str, Setting]] = read_table("""
follower.fetch.last.tiered.offset.enable  boolean false  cluster-wide
    Whether an empty follower starts behind what is in the remote store.
remote.fetch.max.wait.ms  int 500  1..  cluster-wide
    Milliseconds that a fetch waits for the remote store.
remote.list.offsets.request.timeout.ms  long 30000  1..  cluster-wide
    Milliseconds that an offset lookup waits for the remote store.
remote.log.index.file.cache.total.size.bytes  long 1073741824  low  1..  cluster-wide
    Disk for indexes fetched from the remote store, in bytes.
remote.log.index.file.cache.ttl.ms  long 900000  low  -1..  internal
    Milliseconds that an unused fetched index is kept; -1 is for ever.
    No effect: indexes stay until others need their room.
remote.log.manager.copier.thread.pool.size  int 10  1..  cluster-wide
    Copies to the remote store at once.
remote.log.manager.copy.max.bytes.per.second  long 9223372036854775807  1..  cluster-wide
    Most bytes copied to the remote store in a second.
remote.log.manager.copy.quota.window.num  int 11  1..
    Windows that the copy quota looks back on.
    No effect: a pace is kept from one piece to the next, without windows.
remote.log.manager.copy.quota.window.size.seconds  int 1  1..
    Seconds of one window of the copy quota.
    No effect: a pace is kept from one piece to the next, without windows.
remote.log.manager.expiration.thread.pool.size  int 10  1..  cluster-wide
    Deletions in the remote store at once.
remote.log.manager.fetch.max.bytes.per.second  long 9223372036854775807  1..  cluster-wide
    Most bytes read from the remote store in a second.
remote.log.manager.fetch.quota.window.num  int 11  1..
    Windows that the read quota looks back on.
    No effect: a pace is kept from one piece to the next, without windows.
remote.log.manager.fetch.quota.window.size.seconds  int 1  1..
    Seconds of one window of the read quota.
    No effect: a pace is kept from one piece to the next, without windows.
remote.log.manager.follower.thread.pool.size  int 2  1..  cluster-wide
    Lookups at once of how far followers' partitions are in the remote store.
    No effect: one event loop looks after all partitions.
remote.log.manager.task.interval.ms  long 30000  low  1..
    Milliseconds between two looks for segments to copy or to delete.
remote.log.manager.task.retry.backoff.max.ms  long 30000  low  1..  internal
    Most milliseconds before a failed copy is tried again.
remote.log.manager.task.retry.backoff.ms  long 500  low  1..  internal
    Milliseconds before a failed copy is tried again, at first.
remote.log.manager.task.retry.jitter  double 0.2  low  0..0.5  internal
    Share by which those times vary by chance.
remote.log.manager.thread.pool.size  int 2  1..
    The older name of remote.log.manager.follower.thread.pool.size.
    No effect: one event loop looks after all partitions.
remote.log.metadata.custom.metadata.max.bytes  int 128  low  0..
    Largest note that a remote store may keep with a segment, in bytes.
remote.log.metadata.manager.class.name  string \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager  filled
    Class that keeps the list of remote segments.
    No effect: the list is always kept in __remote_log_metadata.
remote.log.metadata.manager.class.path  string null
    Where that class is loaded from.
    No effect: a Java class cannot be loaded here.
remote.log.metadata.manager.impl.prefix  string rlmm.config.  filled
    Prefix of the settings of that list: those of its topic, remote.log.metadata.topic.
remote.log.metadata.manager.listener.name  string null  filled
    Listener through which that class talks to its own broker.
    No effect: a broker reads and writes its own partitions without a connection.
remote.log.reader.max.pending.tasks  int 100  1..
    Most reads that may wait for the remote store.
remote.log.reader.threads  int 10  1..  cluster-wide
    Reads from the remote store at once.
remote.log.storage.manager.class.name  string null  filled
    Class that talks to the remote store.
remote.log.storage.manager.class.path  string null
    Where that class is loaded from.
    No effect: a Java class cannot be loaded here.
remote.log.storage.manager.impl.prefix  string rsm.config.  filled
    Prefix of the settings that are meant for that class.
remote.log.storage.system.enable  boolean false
    Whether topics can be tiered at all.
""")
