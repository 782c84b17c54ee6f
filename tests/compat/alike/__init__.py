"""The same requests to Apache Kafka and to headrace, in all versions of each kind, compared field by field.

    python -m tests.compat.alike                      starts both and plays everything
    python -m tests.compat.alike groups --seeds 20    one area, with 20 seeds of its random walks
    python -m tests.compat.alike --record             also keeps Kafka's answers for the test without a JVM
    python -m tests.compat.alike replicas             three nodes of each, one system after the other

`scripts/` has the conversations: each is a coroutine over a `Session`, which numbers what a server chooses,
so that it reads the same everywhere (`plain.py`). `play.py` has one on a broker, `three_nodes.py` on a
cluster, `difference.py` compares two, and `allowed.py` is the table of the differences that are meant, each
with its reason. What Kafka answered to the scripts is kept in `recorded/`; `test_alike.py` plays them on
simulated nodes and compares.
"""
