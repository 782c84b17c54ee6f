"""Whole systems that stand on Kafka, and clients of years ago, on the broker under test.

Kafka Streams (at least once and exactly once), MirrorMaker 2 (Kafka Connect with exactly-once sources,
between two brokers), and Java clients from 2.1 on, each as Maven Central carries it.

    python -m tests.compat.systems                          all of them, some two minutes
    python -m tests.compat.systems streams mirror java-3.3.2
    COMPAT_BROKER=kafka python -m tests.compat.systems      the same on Apache Kafka
"""
