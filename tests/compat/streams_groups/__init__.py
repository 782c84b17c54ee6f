"""Kafka Streams' own smoke test with `group.protocol=streams` (KIP-1071), whose instances and broker are
struck while it runs.

    python -m tests.compat.streams_groups [--minutes M] [--seed N] [--guarantee at_least_once]
                                          [--instances 3] [--nodes 3] [--broker kafka] [--folder F]

`Smoke.java` runs Apache Kafka's SmokeTestDriver and SmokeTestClient as its releases carry them: an
application with windows, suppression, repartition topics, joins and a dozen of stores. The driver feeds it,
and then judges all that came out: minima, sums, averages and counts of each key; with exactly_once_v2 also
that nothing was processed twice. It asks for the description of the group too, which only a streams group
has.

`instances` keeps the application's processes alive, each with its state folder; `schedule` draws from the
seed who is struck when:

- killed (-9), and started again with the state that it left behind;
- told to end, and started again;
- frozen for less, or for more, than its session: it comes back as a zombie;
- the broker killed, or of three nodes one after the other, and started again.
"""
