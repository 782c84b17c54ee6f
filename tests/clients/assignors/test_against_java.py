"""Java's assignors and partitioner give the same answers as ours, on thousands of groups and keys in one JVM.

The one known difference is an error of Java's: in a group with different subscriptions its sticky assignors
may return a partition to an earlier owner that no longer subscribes to the topic, or fail over it. Ours give
it to a subscriber; such cases are counted, and must satisfy what every assignment must.
"""

import base64
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients.assignors import ASSIGNORS, make_assignor
from headrace.clients.assignors.consumer_partition_assignor import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.records.kernels.choice import kernels, partition_for_key
from tests.clients.assignors.invariants import check
from tests.clients.assignors.peer_cases import Case, member_json, random_case

LIBS = Path(os.environ.get("PEERS_HOME") or Path.home() / ".cache/peers") / "kafka/4.3.1/libs"
JARS = ("kafka-clients-", "jackson-annotations-", "jackson-core-", "jackson-databind-", "slf4j-api-")
PROGRAM = Path(__file__).with_name("AssignorPeer.java")

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(shutil.which("javac") is None, reason="Java's compiler is not installed"),
    pytest.mark.skipif(not LIBS.is_dir(), reason=f"Apache Kafka's jars are not in {LIBS} (set PEERS_HOME)"),
]

SEED = 20261115
OWNED = (TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 7))
SUBSCRIPTIONS = (
    Subscription(("b", "a"), b"\0data", OWNED, 42, "rack"),
    Subscription(("ü",), None, (), -1, None),
)


@cache
def groups() -> list[Case]:
    return [random_case(Random(SEED + number), list(ASSIGNORS)[number % 4]) for number in range(4000)]


@cache
def keys() -> list[tuple[bytes, int]]:
    rng = Random(SEED)
    return [(rng.randbytes(rng.choice((*range(20), 100))), rng.randint(1, 1000)) for _ in range(5000)]


@pytest.fixture(scope="module")
def java() -> dict[str, Any]:
    """All answers, of one run."""
    exchanged = [
        member_json("m", each)
        | {
            "our_subscription": _text(encode_subscription(each)),
            "our_assignment": _text(encode_assignment(each.owned_partitions)),
        }
        for each in SUBSCRIPTIONS
    ]
    questions = {
        "assignments": [case.to_json() for case in groups()],
        "keys": [{"key": _text(key), "partitions": count} for key, count in keys()],
        "protocol": exchanged,
    }
    jars = os.pathsep.join(str(each) for each in LIBS.iterdir() if each.name.startswith(JARS))
    done = subprocess.run(
        ["java", "-Xmx256M", "-cp", jars, str(PROGRAM)],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_assignments(java: dict[str, Any], name: str) -> None:
    same = wrong = 0
    for number, (case, theirs) in enumerate(zip(groups(), java["assignments"], strict=True)):
        if case.assignor != name:
            continue
        ours = make_assignor(name).assign(case.topics, case.subscriptions)
        check(case, ours)
        if _is_wrong(case, theirs):
            wrong += 1
            continue
        expected = {member: sorted(map(tuple, given)) for member, given in theirs.items()}
        assert ours == expected, f"group {number}: {case}"
        same += 1
    assert same >= 950
    assert wrong <= (10 if "sticky" in name else 0)


def _is_wrong(case: Case, theirs: dict[str, Any]) -> bool:
    return "" in theirs or any(
        topic not in case.subscriptions[member].topics
        for member, given in theirs.items()
        for topic, _ in given
    )


def test_keys(java: dict[str, Any]) -> None:
    ours = [[kernels.murmur2(key), partition_for_key(key, count)] for key, count in keys()]
    assert ours == java["keys"]


def test_bytes(java: dict[str, Any]) -> None:
    for ours, theirs in zip(SUBSCRIPTIONS, java["protocol"], strict=True):
        assert theirs["subscription"] == _text(encode_subscription(ours))
        read = decode_subscription(base64.b64decode(theirs["subscription"]))
        assert (set(read.topics), read.generation, read.rack) == (
            set(ours.topics),
            ours.generation,
            ours.rack,
        )
        assert sorted(read.owned_partitions) == sorted(ours.owned_partitions)
        assert (theirs["generation"], theirs["rack"]) == (ours.generation, ours.rack)
        for there in (theirs["read"], theirs["assigned"]):
            assert sorted(map(tuple, there)) == sorted(ours.owned_partitions)
        assert sorted(decode_assignment(base64.b64decode(theirs["assignment"]))) == sorted(
            ours.owned_partitions
        )
        for name in ("sticky", "cooperative-sticky"):
            assignor = make_assignor(name)
            assignor.on_assignment(ours.owned_partitions, ours.generation)
            assert theirs[name] == _text(assignor.user_data(ours.topics) or b"")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
