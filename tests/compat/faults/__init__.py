"""Three nodes under fire: killed, frozen, cut off, run full and restarted while producers of four libraries
write.

    python -m tests.compat.faults --minutes 10 --seed N [--transactions | --secure] [--only KIND …]

The nodes are real processes with default settings, three replicas and min.insync.replicas=2. `schedule`
draws faults from the seed, `run` carries them out one after the other, sometimes two at once on different
nodes, and lets every producer get on before the next. Idempotent producers with acks=all (`writers`:
confluent-kafka, aiokafka, kafka-python and our own) number their records; readers (`readers`) follow the
partitions all the time.

Each node is a host of its own (`hosts`): a network namespace behind a router that can lose what one host
sends to another, in one direction or both, without a word to either. Its disk is a small tmpfs (`disks`)
that a ballast fills. Both need root and Linux: the command puts itself into namespaces of its own, which
end with it. Without them the nodes share the loopback, and cuts and full disks are left out, which the
output says.

What must hold (`checker`), as read with confluent-kafka at the end:

- an acknowledged record is at the partition and offset that its producer was told, and nowhere else
  (librdkafka tells no offset where it concludes from a later batch that a record was written);
- no record is there twice, acknowledged or not, and none that was never sent;
- a producer's records of one partition are in the order sent, without a gap (but for those that failed);
- offsets have no gaps; what a reader saw at an offset while faults went on is what is there at the end, and
  it saw all of it once, in order;
- the three replicas of a partition are the same, byte for byte, once they are in sync again;
- every producer gets on within a minute of the end of a fault, and no record fails.

With --transactions the producers are transactional, the readers read what is committed, and the rules are
those of transactions (`transactions`).

With --secure every listener asks for TLS and a login (SASL_SSL), and before each fault certificates, their
authority or the passwords of clients and nodes change (`locks`). No client may see an error of that, and no
node turns anybody away."""
