"""Source, sink, pipelines and loads on each minor version of Spark that the package allows.

    python -m tests.spark.versions [VERSION ...]

Each version has an environment of its own below ~/.cache/headrace-tests, which is made where it is missing:
pyspark comes from PyPI, half a gigabyte a version, and everything else from the environment that runs this.
What a trial found is a cell of a table; `table.py` has what is expected, and docs/spark-clusters.md shows it.
"""
