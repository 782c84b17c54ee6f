"""Transactions and idempotent producers. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_TRANSACTION: Final[dict[str, Setting]] = read_table("""
add.partitions.to.txn.retry.backoff.max.ms  int 100  high  0..
    Most milliseconds that a broker tries to add a partition to a transaction.
add.partitions.to.txn.retry.backoff.ms  int 20  high  1..
    Milliseconds before a broker tries again to add a partition to a transaction.
producer.id.expiration.check.interval.ms  int 600000  low  1..  internal
    Milliseconds between two looks for producers that have expired; for tests.
producer.id.expiration.ms  int 86400000  low  1..  cluster-wide
    Milliseconds that a partition remembers a silent producer's sequence.
transaction.abort.timed.out.transaction.cleanup.interval.ms  int 10000  low  1..
    Milliseconds between two looks for transactions to abort for their age.
transaction.max.timeout.ms  int 900000  high  1..
    Longest transaction timeout that a producer may ask for, in milliseconds.
transaction.partition.verification.enable  boolean true  low  cluster-wide
    Whether a partition asks if it is part of a transaction before its first write.
transaction.remove.expired.transaction.cleanup.interval.ms  int 3600000  low  1..
    Milliseconds between two looks for transactional ids to forget.
transaction.state.log.load.buffer.size  int 5242880  high  1..
    Bytes read at a time when a coordinator loads the transaction topic.
transaction.state.log.min.isr  int 2  high  1..
    The transaction topic's min.insync.replicas.
transaction.state.log.num.partitions  int 50  high  1..
    Partitions of the transaction topic; not to be changed once it is there.
transaction.state.log.replication.factor  short 3  high  1..
    Replicas of the transaction topic.
transaction.state.log.segment.bytes  int 104857600  high  1..
    Segment size of the transaction topic in bytes; small ones load faster.
transaction.two.phase.commit.enable  boolean false  low
    Whether producers may prepare transactions that an outside coordinator decides.
transactional.id.expiration.ms  int 604800000  high  1..
    Milliseconds after which a transactional id that is not used is forgotten.
""")
