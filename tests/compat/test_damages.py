"""Damaged files of a real node are never passed over in silence; the long form is `tests.compat.damages`."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.compat.damages.harm import Harm, kind_of
from tests.compat.damages.single import CLEAN, SingleNode
from tests.compat.damages.verdict import Verdict, judge, judge_refusal

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SingleNode]:
    world = SingleNode(tmp_path_factory.mktemp("damages"))
    with world.broker:
        world.prepare()
        yield world


@pytest.mark.parametrize(
    ("seed", "kind"),
    [(2, "internal-log"), (3, "txnindex"), (4, "log-starts"), (5, "metadata-log")],
)
def test_no_damage_is_silent(node: SingleNode, seed: int, kind: str) -> None:
    _, harm, outcome = node.play(seed, [kind])
    assert outcome.verdict is not Verdict.SILENT, f"{harm}: {outcome.why}"


def test_what_nobody_can_notice_is_called_silent(node: SingleNode) -> None:
    """A changed value under a CRC that fits: only who knows what was written sees it, and this does."""
    node.restore(CLEAN)
    name = f"plain-0/{0:020}.log"
    path = node.data / name
    before = path.read_bytes()
    data = bytearray(before)
    end = 12 + struct.unpack_from(">i", data, 8)[0]
    data[end - 2] ^= 1
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:end])))
    path.write_bytes(data)
    outcome = node.look(Harm("log", name, path, "flip", before), CLEAN)
    assert outcome.verdict is Verdict.SILENT
    assert "no line" in outcome.why


def harm_to(tmp_path: Path, name: str, *, is_undone: bool = False) -> Harm:
    path = tmp_path / "file"
    path.write_bytes(b"good" if is_undone else b"bad")
    kind = kind_of(name)
    assert kind is not None
    return Harm(kind, name, path, "flip", b"good")


LOG = f"plain-0/{0:020}.log"
LINE = "2026-11-18T08:00:00Z WARNING [1] headrace.log: plain-0: records from offset 3 to 5 are damaged"
OTHER = "2026-11-18T08:00:00Z WARNING [1] headrace.log: other-0: records from offset 3 to 5 are damaged"


def test_verdicts(tmp_path: Path) -> None:
    harm = harm_to(tmp_path, LOG)
    assert judge(harm, ["3 lack"], LINE).verdict is Verdict.LOST
    assert judge(harm, ["3 lack"], OTHER).verdict is Verdict.SILENT
    assert judge(harm, ["3 lack"], LINE.replace("WARNING", "DEBUG")).verdict is Verdict.SILENT
    assert judge(harm, [], LINE).verdict is Verdict.MENDED
    assert judge(harm, [], "").verdict is Verdict.SILENT
    assert judge(harm, [], LINE, replicated=True).verdict is Verdict.FETCHED
    assert judge(harm, ["3 lack"], LINE, replicated=True).verdict is Verdict.SILENT
    assert judge(harm_to(tmp_path, LOG, is_undone=True), [], "").verdict is Verdict.UNHARMED
    assert judge(harm_to(tmp_path, f"plain-0/{0:020}.index"), [], "").verdict is Verdict.UNHARMED


def test_the_latest_snapshot_of_the_metadata_is_missed(tmp_path: Path) -> None:
    latest = harm_to(tmp_path, f"__cluster_metadata-0/{9:020}-{1:010}.checkpoint")
    assert judge(latest, [], "").verdict is Verdict.SILENT
    assert judge(replace(latest, is_latest=False), [], "").verdict is Verdict.UNHARMED


def test_a_refusal_names_the_file_and_the_way_out(tmp_path: Path) -> None:
    harm = harm_to(tmp_path, "meta.properties")
    assert judge_refusal(harm, "meta.properties is damaged. Bring it back").verdict is Verdict.REFUSED
    assert judge_refusal(harm, "meta.properties is damaged").verdict is Verdict.SILENT
    assert judge_refusal(harm, "something is damaged. Bring it back").verdict is Verdict.SILENT
