"""Run them; see the package."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.compat import brokers, prepare
from tests.compat.brokers import Broker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import Record, eventually
from tests.compat.samples import hour_ago_ms
from tests.compat.systems import __doc__ as purpose

HERE = Path(__file__).parent
OLD_CLIENTS = ("2.1.1", "2.4.1", "2.8.2", "3.3.2", "3.9.1")
GUARANTEES = ("at_least_once", "exactly_once_v2")
RUN_SECONDS = 180
MIRRORED = 500

MIRROR_SETTINGS = """\
clusters = from, to
from.bootstrap.servers = {source}
to.bootstrap.servers = {target}
from->to.enabled = true
to->from.enabled = false
from->to.topics = mirrored
from->to.sync.group.offsets.enabled = true
from->to.emit.checkpoints.interval.seconds = 1
from->to.sync.group.offsets.interval.seconds = 1
exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:0
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""


def streams(broker: Broker, folder: Path) -> None:
    jars = prepare.jars("kafka-streams", f"org.apache.kafka:kafka-streams:{prepare.kafka_version()}")
    program = prepare.java_class(HERE / "WordCount.java", jars)
    for guarantee in GUARANTEES:
        _run(_java(jars, program), "WordCount", broker.bootstrap, guarantee, str(folder / guarantee))


def old_client(version: str, broker: Broker, folder: Path) -> None:
    jars = prepare.jars(f"clients-{version}", f"org.apache.kafka:kafka-clients:{version}")
    _run(
        _java(jars, prepare.java_class(HERE / "OldClient.java", jars)), "OldClient", broker.bootstrap, version
    )


def mirror(broker: Broker, folder: Path) -> None:
    """A topic and a group's offsets go from the broker to another one."""
    version = prepare.kafka_version()
    jars = prepare.jars(
        "mirror", f"org.apache.kafka:connect-mirror:{version}", f"org.apache.kafka:connect-runtime:{version}"
    )
    with brokers.under_test(folder) as other:
        other.start()
        source, target = Confluent(broker.bootstrap), Confluent(other.bootstrap)
        source.create_topic("mirrored", 2, {})
        records = [Record(at % 2, hour_ago_ms(), value=b"%d" % at) for at in range(MIRRORED)]
        source.produce("mirrored", records, "zstd")
        source.join("m", "readers", "mirrored")
        eventually(lambda: len(source.taken("m")) == MIRRORED, "the topic itself")
        source.commit("m")
        source.leave("m")
        settings = folder / "mirror.properties"
        settings.write_text(MIRROR_SETTINGS.format(source=broker.bootstrap, target=other.bootstrap))
        main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
        with (folder / "mirror.out").open("wb") as out:
            process = subprocess.Popen([*_java(jars), main_class, str(settings)], stdout=out, stderr=out)
        try:
            eventually(lambda: "from.mirrored" in target.topics(), "the mirrored topic", RUN_SECONDS)
            target.join("check", "check", "from.mirrored")
            eventually(lambda: len(target.taken("check")) >= MIRRORED, "its records", RUN_SECONDS)
            copied = sorted(int(record.value or b"") for record in target.taken("check"))
            assert copied == list(range(MIRRORED)), "not every record was mirrored once"
            eventually(
                lambda: target.committed("readers", "from.mirrored"), "the group's offsets", RUN_SECONDS
            )
            target.leave("check")
        finally:
            process.terminate()
            process.wait(60)
        other.stop()
    print(f"MirrorMaker 2: {MIRRORED} records and a group's offsets mirrored, exactly once")


def _java(*paths: Path) -> list[str]:
    joined = ":".join(f"{path}/*" if list(path.glob("*.jar")) else str(path) for path in paths)
    return ["java", "-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", joined]


def _run(*command: str | list[str]) -> None:
    words = [word for part in command for word in ([part] if isinstance(part, str) else part)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS)
    if done.returncode:
        sys.exit("\n".join((done.stdout + done.stderr).splitlines()[-30:]))
    print(done.stdout.strip().splitlines()[-1], flush=True)


SYSTEMS: dict[str, Callable[[Broker, Path], None]] = {
    "streams": streams,
    "mirror": mirror,
    **{f"java-{version}": partial(old_client, version) for version in OLD_CLIENTS},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat.systems",
        description=purpose,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}; by default all"
    )
    chosen = parser.parse_args().systems or list(SYSTEMS)
    if unknown := set(chosen) - set(SYSTEMS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with (
        tempfile.TemporaryDirectory(prefix="systems-") as folder,
        brokers.under_test(Path(folder)) as broker,
    ):
        broker.start()
        for name in chosen:
            began = time.monotonic()
            own = Path(folder) / name
            own.mkdir()
            SYSTEMS[name](broker, own)
            print(f"  {name}: {time.monotonic() - began:.0f} s", flush=True)
        broker.stop()


if __name__ == "__main__":
    main()
