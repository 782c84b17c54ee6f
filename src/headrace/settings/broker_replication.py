"""How followers fetch, who is in sync, who leads. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_REPLICATION: Final[dict[str, Setting]] = read_table("""
auto.leader.rebalance.enable  boolean true  high
    Whether leaders go back to their first replicas by themselves.
default.replication.factor  int 1
    Replicas of a topic that is made without saying how many.
min.insync.replicas  int 1  high  1..  cluster-wide
    Replicas that must hold a record before acks=all succeeds.
num.replica.alter.log.dirs.threads  int null  high
    Threads that move replicas between folders; as many as there are folders by default.
num.replica.fetchers  int 1  high  1..  cluster-wide
    Threads that fetch from each leading broker.
    No effect: one event loop fetches from all leaders.
replica.fetch.backoff.ms  int 1000  0..
    Milliseconds that a follower waits after a failed fetch.
replica.fetch.max.bytes  int 1048576  0..
    Bytes that a follower asks for each partition; one batch is always sent.
replica.fetch.min.bytes  int 1  high
    Bytes that a follower's fetch waits for.
replica.fetch.response.max.bytes  int 10485760  0..
    Most bytes in one answer to a follower; one batch is always sent.
replica.fetch.wait.max.ms  int 500  high
    Milliseconds that a follower's fetch waits for records.
replica.high.watermark.checkpoint.interval.ms  long 5000  high
    Milliseconds between two writings of the high watermarks to disk.
replica.lag.time.max.ms  long 30000  high
    Milliseconds that a follower may lag before it is no longer in sync.
replica.selector.class  string null
    Class that chooses the replica that a consumer reads from.
replica.socket.receive.buffer.bytes  int 65536  high
    Receive buffer of a follower's socket, in bytes.
replica.socket.timeout.ms  int 30000  high
    Milliseconds that a follower waits for an answer.
unclean.leader.election.enable  boolean false  high  cluster-wide
    Whether a replica that may lack records can lead when no complete one is left.
""")
