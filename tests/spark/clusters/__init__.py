"""Pipelines on a real standalone cluster: a master and two workers as processes, with Pythons of their own.

    python -m tests.spark.clusters [CASE ...]

Where Linux and root allow it, each worker is on a host of its own (network namespaces joined by a router);
else they have loopback addresses. The driver is `headrace pipeline run` or `spark-submit`, as a user runs it.
What must hold in every case: each number that went in comes out, once.
"""
