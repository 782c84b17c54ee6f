"""Options of the JVMs that Spark starts in tests.

They live for seconds: one that optimises nothing takes a third less of the CPU, and leaves it to the others.
"""

import os
from typing import Final

from tests.spark import class_archive

SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Spark's own: for a driver, for what starts one, and for master and workers of a cluster.
_VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS")


def short_lived() -> str:
    """Of a JVM with Spark's own class path."""
    return SHORT_LIVED + class_archive.options()


def hurry_jvms() -> None:
    """For this process and all that it starts."""
    for name in _VARIABLES:
        has_other_classes = name == "SPARK_LAUNCHER_OPTS"
        os.environ.setdefault(name, SHORT_LIVED if has_other_classes else short_lived())
