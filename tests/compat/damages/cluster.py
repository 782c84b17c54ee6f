"""Three nodes with three replicas of everything: the files of one are damaged while the others serve.

The cluster is filled once and goes on. Under each seed one node is stopped or killed, damaged and started;
when it is in sync again its logs must be those of the others, record by record, in its own files. A node that
refuses to start gets its files back, as its line says.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient

from headrace.base.errors import InvalidBytesError
from headrace.records.batch import batches, crc_matches, read_records
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster, Node
from tests.compat.damages.contents import COMPACTED, Contents, differences, fill, read
from tests.compat.damages.harm import Harm, strike
from tests.compat.damages.single import CLEAN, KILLED, SETTINGS
from tests.compat.damages.verdict import Outcome, Verdict, judge, judge_refusal

IN_SYNC_SECONDS = 30.0


class ThreeNodes:
    """The cluster, and what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        settings = SETTINGS | {
            "rsm.config.url": str(self.store),
            "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
        }
        self.broker = HeadraceCluster(folder / "cluster", settings)
        self.before = Contents()

    @property
    def log(self) -> Path:
        """Of the node that was damaged last."""
        return self._node.log

    def prepare(self) -> None:
        self.store.mkdir(parents=True)
        self.broker.start()
        fill(self.broker.bootstrap)
        self._await_in_sync()
        self.before = read(self.broker.bootstrap)
        assert not self.before.refusals, self.before.refusals

    def play(self, seed: int, only: list[str] | None = None) -> tuple[str, Harm, Outcome]:
        chance = random.Random(seed)
        node = self._node = chance.choice(self.broker.nodes)
        assert node.data is not None
        state = CLEAN if seed % 2 else KILLED
        (node.stop if state == CLEAN else node.kill)()
        kept = self.folder / "kept"
        shutil.copytree(node.data, kept)
        # What is in the store has no replica.
        harm = strike(chance, node.data, None, only)
        outcome = self._look(node, harm)
        if outcome.verdict in (Verdict.REFUSED, Verdict.SILENT):
            if node.is_running:
                node.kill()
            shutil.rmtree(node.data)
            shutil.copytree(kept, node.data)
            node.start()
            self._await_in_sync()
        shutil.rmtree(kept)
        return f"{state} node {node.number}", harm, outcome

    def _look(self, node: Node, harm: Harm) -> Outcome:
        said_before = node.log.stat().st_size
        try:
            node.start()
        except AssertionError:
            if node.ended_by_itself() is None:
                return Outcome(Verdict.SILENT, "it neither starts nor ends")
            return judge_refusal(harm, node.log.read_bytes()[said_before:].decode(errors="replace"))
        lacking: list[str] = []
        try:
            self._await_in_sync()
            eventually(lambda: not self._lacking(node), "the logs to be those of the others", IN_SYNC_SECONDS)
        except AssertionError as error:
            lacking = [f"{error}", *self._lacking(node)]
        found = differences(self.before, read(self.broker.bootstrap, self.before)) + lacking
        said = node.log.read_bytes()[said_before:].decode(errors="replace")
        return judge(harm, found, said, replicated=True)

    def _await_in_sync(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})

        def all_are() -> bool:
            topics = admin.list_topics(timeout=10).topics.values()
            parts = [part for topic in topics for part in topic.partitions.values()]
            return bool(parts) and all(len(part.isrs) == len(part.replicas) for part in parts)

        eventually(all_are, "all replicas to be in sync", IN_SYNC_SECONDS)

    def _lacking(self, node: Node) -> list[str]:
        """What the files of a node lack that those of another have."""
        other = next(each for each in self.broker.nodes if each is not node)
        found = []
        assert node.data is not None
        assert other.data is not None
        for folder in sorted(other.data.glob("*-[0-9]*")):
            topic = folder.name.rpartition("-")[0]
            if topic == "__cluster_metadata" or not folder.is_dir():
                continue
            own, theirs = dict(_records(node.data / folder.name)), dict(_records(folder))
            # Each compacts, and drops what is in the store, by itself.
            first = max(min(own, default=0), min(theirs, default=0)) if topic == "tiered" else 0
            lost = [offset for offset in theirs if offset >= first and own.get(offset) != theirs[offset]]
            if topic not in COMPACTED and lost:
                found.append(f"{folder.name}: {len(lost)} records from offset {lost[0]} are not the others'")
        return found


def _records(folder: Path) -> Iterator[tuple[int, tuple[bytes | None, bytes | None]]]:
    """The records that files hold, as far as their batches are whole."""
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        try:
            for at, header in batches(data):
                if not crc_matches(data, at, header):
                    continue
                for record in read_records(memoryview(data)[at : at + header.size]):
                    yield record.offset, (record.key, record.value)
        except InvalidBytesError:
            continue
