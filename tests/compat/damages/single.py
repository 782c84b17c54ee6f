"""One node by itself: filled once, stopped in order and killed, and damaged under each seed anew."""

import random
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.cli.doctor_node import look_at_node
from headrace.log.checkpoints import decode_offsets
from headrace.log.system_disk import SystemDisk
from headrace.node.config import load
from headrace.settings.broker_config import BrokerConfig
from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.face import eventually
from tests.compat.damages.contents import Contents, differences, fill, read, write
from tests.compat.damages.harm import Harm, strike
from tests.compat.damages.verdict import Outcome, Verdict, judge, judge_refusal, lines_about

CLEAN: Final = "clean"
KILLED: Final = "killed"
SEARCH_SECONDS: Final = 60.0
SETTINGS: Final = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "10",
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.message.timestamp.before.max.ms": str(2**62),
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}


@dataclass
class SingleNode:
    """The node and its two states at rest, each with what was in it."""

    folder: Path
    before: dict[str, Contents] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.broker = HeadraceBroker(self.folder / "run" / "data", dict(SETTINGS))
        self.broker.settings["rsm.config.url"] = str(self.folder / "run" / "store")
        self.broker.settings["rlmm.config.remote.log.metadata.topic.replication.factor"] = "1"

    @property
    def data(self) -> Path:
        return self.folder / "run" / "data"

    @property
    def store(self) -> Path:
        return self.folder / "run" / "store"

    @property
    def log(self) -> Path:
        return self.broker.log

    def prepare(self) -> None:
        """Fill it, and keep its files as they are after a stop in order and after a kill."""
        self.store.mkdir(parents=True)
        broker = self.broker
        broker.start()
        fill(broker.bootstrap)
        self._await_upkeep()
        self.before[CLEAN] = read(broker.bootstrap)
        assert not self.before[CLEAN].refusals, self.before[CLEAN].refusals
        broker.stop()
        self._keep(CLEAN)
        broker.start()
        write(broker.bootstrap, 300, 360)
        self._await_upkeep()
        self.before[KILLED] = read(broker.bootstrap)
        assert not self.before[KILLED].refusals, self.before[KILLED].refusals
        broker.kill()
        self._keep(KILLED)

    def _keep(self, state: str) -> None:
        shutil.copytree(self.folder / "run", self.folder / state)

    def _await_upkeep(self) -> None:
        """Until there are files of every kind: compaction and copies are done, checkpoints are written."""

        def is_done() -> bool:
            try:
                cleaned = decode_offsets((self.data / "cleaner-offset-checkpoint").read_bytes())
                started = decode_offsets((self.data / "log-start-offset-checkpoint").read_bytes())
                points = decode_offsets((self.data / "recovery-point-offset-checkpoint").read_bytes())
                marks = decode_offsets((self.data / "replication-offset-checkpoint").read_bytes())
            except FileNotFoundError:
                return False
            partition = TopicPartition("plain", 0)
            # Of the tiered topic only the active segment, and what is being copied, is on the disk.
            left = len(list((self.data / "tiered-0").glob("*.log")))
            active = max(int(path.stem) for path in (self.data / "keyed-0").glob("*.log"))
            return (
                cleaned.get(TopicPartition("keyed", 0), 0) == active
                and TopicPartition("trimmed", 0) in started
                and points.get(partition, 0) > 0
                and marks.get(partition, 0) > 0
                and left <= 3
            )

        eventually(is_done, "compaction, copies and checkpoints", 60)

    def restore(self, state: str) -> None:
        shutil.rmtree(self.folder / "run")
        shutil.copytree(self.folder / state, self.folder / "run")
        self.broker.log.write_bytes(b"")

    def play(self, seed: int, only: list[str] | None = None) -> tuple[str, Harm, Outcome]:
        """One damage, from the start to the verdict."""
        chance = random.Random(seed)
        state = CLEAN if seed % 2 else KILLED
        self.restore(state)
        harm = strike(chance, self.data, self.store, only)
        return state, harm, self.look(harm, state)

    def look(self, harm: Harm, state: str) -> Outcome:
        broker = self.broker
        levels = {each.level for each in look_at_node(SystemDisk(), self._config(), [])}
        try:
            broker.start()
        except AssertionError:
            has_ended = broker.exit_code is not None or not broker.is_running
            if broker.is_running:
                broker.kill()
            said = broker.log.read_text(errors="replace")
            found = judge_refusal(harm, said)
            if "error" not in levels:
                return Outcome(
                    Verdict.SILENT, "it does not start, and the doctor finds no error", found.lines
                )
            return found if has_ended else Outcome(Verdict.SILENT, "it neither starts nor ends", found.lines)
        found = differences(self.before[state], read(broker.bootstrap, self.before[state]))
        if found:
            self._await_word(harm)
        crash = broker.exit_code
        if crash is None:
            broker.stop()
        else:
            broker.kill()
        said = broker.log.read_text(errors="replace")
        if crash is not None:
            return Outcome(Verdict.SILENT, f"it ended with {crash} under its readers")
        if "Traceback" in said.partition("stopped after")[0]:
            return Outcome(Verdict.SILENT, "a traceback in place of a sentence")
        return judge(harm, found, said)

    def _config(self) -> BrokerConfig:
        return load(None, {"node.id": "1"}, None, str(self.data))

    def _await_word(self, harm: Harm) -> None:
        """Readers may come to a damaged batch before the node's own search (`log_scrubber`) does."""

        def is_told() -> bool:
            is_over = self.broker.exit_code is not None
            return is_over or bool(lines_about(harm, self.log.read_text(errors="replace")))

        with suppress(AssertionError):
            eventually(is_told, "a line about the damage", SEARCH_SECONDS)
