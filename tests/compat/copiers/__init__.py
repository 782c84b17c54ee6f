"""Transactional copiers of stock clients: a topic is copied by groups of them that are killed, frozen and
doubled at random, and the copy, read committed, is the original: every record, once, in its order.

    python -m tests.compat.copiers --client java|confluent|franz|kafka-python|aiokafka|headrace
                                   --minutes M --seed N [--nodes 3] [--broker kafka]

A copier (`roster`; Java's is Apache Kafka's own TransactionalMessageCopier) is a member of a group: it reads
committed records, writes each to the same partition of the other topic, and commits both records and offsets
in one transaction. `crew` keeps a few of them alive: whoever ends is started again under the same
transactional id, as an operator's tools would do it. `schedule` draws from the seed who is struck when:

- killed (-9) with whatever it has open;
- frozen for less, or for more, than its session and the transaction's time: it comes back as a zombie;
- frozen while another one takes its transactional id: it comes back as a zombie that is fenced;
- with three nodes, a node is killed under all of them and started again.

`feeding` writes the original all the time, in transactions, some of which it aborts; so copiers never idle
and must not copy what was aborted. `following` reads the copy along. What must hold: in each partition the
copy is number 0, 1, 2, … up to what was fed, while it is read along and when it is read again at the end;
and the copying comes to its end soon after the last fault.
"""
