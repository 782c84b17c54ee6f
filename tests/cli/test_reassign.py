"""Plans of reassignments: what is read, what is refused, what is proposed and what is throttled."""

import json
import random
from pathlib import Path
from typing import Any

import click
import pytest

from headrace.base.ids import TopicPartition
from headrace.cli.reassign_plan import (
    ANY,
    Plan,
    ReplicaTarget,
    current_plan,
    plan_text,
    propose,
    read_plan,
    read_topics,
    throttled_replicas,
)
from headrace.clients import BrokerDescription, TopicDescription, TopicPartitionInfo


def written(folder: Path, content: Any) -> Path:
    path = folder / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def entry(partition: int = 0, replicas: Any = (1, 2), **more: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "replicas": list(replicas), **more}


def test_a_plan_is_read_as_kafkas_tool_writes_it(tmp_path: Path) -> None:
    plan = read_plan(
        written(tmp_path, {"version": 1, "partitions": [entry(log_dirs=["any", "/data/b"]), entry(1, [3])]})
    )
    assert plan == {
        TopicPartition("t", 0): ReplicaTarget([1, 2], [ANY, "/data/b"]),
        TopicPartition("t", 1): ReplicaTarget([3], [ANY]),
    }
    assert plan[TopicPartition("t", 0)].moved_folders() == {2: "/data/b"}
    assert read_plan(written(tmp_path, plan_text(plan))) == plan


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "no JSON"),
        ([], "object"),
        ({"version": 2, "partitions": [entry()]}, '"version": 1'),
        ({"version": 1}, "partitions"),
        ({"version": 1, "partitions": []}, "names no partitions"),
        ({"version": 1, "partitions": [{"topic": "t"}]}, "lacks"),
        ({"version": 1, "partitions": [entry(), entry()]}, "twice"),
        ({"version": 1, "partitions": [entry(replicas=[])]}, "needs replicas"),
        ({"version": 1, "partitions": [entry(replicas=[1, 1])]}, "each once"),
        ({"version": 1, "partitions": [entry(log_dirs=["any"])]}, "1 log_dirs"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_first(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(click.ClickException, match=r"plan\.json") as refused:
        read_plan(written(tmp_path, content))
    assert complaint in refused.value.message


def test_topics_to_move(tmp_path: Path) -> None:
    assert read_topics(written(tmp_path, {"version": 1, "topics": [{"topic": "a"}, {"topic": "b"}]})) == [
        "a",
        "b",
    ]
    with pytest.raises(click.ClickException, match="must look like"):
        read_topics(written(tmp_path, {"topics": ["a"]}))


def described(count: int, replicas: list[int]) -> TopicDescription:
    partitions = [
        TopicPartitionInfo(number, replicas[0], 0, replicas, replicas, []) for number in range(count)
    ]
    return TopicDescription("t", "id", internal=False, partitions=partitions)


@pytest.mark.parametrize("by_rack", [True, False])
def test_a_proposal_spreads_over_brokers_and_racks(by_rack: bool) -> None:
    brokers = [
        BrokerDescription(n, f"h{n}", 9092, "east" if n < 3 else "west", fenced=False) for n in range(1, 5)
    ]
    topic = described(8, [1, 2])
    plan = propose([topic], brokers, by_rack=by_rack, rng=random.Random(1))
    assert sorted(plan) == sorted(current_plan([topic]))
    leaders = [target.replicas[0] for target in plan.values()]
    assert {leaders.count(broker) for broker in range(1, 5)} == {2}
    if by_rack:
        assert all(len({n < 3 for n in target.replicas}) == 2 for target in plan.values())


def test_fewer_brokers_than_replicas_are_no_place() -> None:
    brokers = [BrokerDescription(1, "h1", 9092, None, fenced=False)]
    with pytest.raises(click.ClickException, match=r"'t' has 2 replicas .* 1 brokers are named: name more"):
        propose([described(3, [1, 2])], brokers, by_rack=False, rng=random.Random(1))


def test_who_sends_and_who_receives_is_throttled() -> None:
    before: Plan = {TopicPartition("t", index): ReplicaTarget([1, 2], [ANY, ANY]) for index in range(2)}
    plan: Plan = {
        TopicPartition("t", 0): ReplicaTarget([2, 3], [ANY, ANY]),
        TopicPartition("t", 1): ReplicaTarget([4, 3], [ANY, ANY]),
    }
    assert throttled_replicas(before, plan) == {"t": ("0:1,0:2,1:1,1:2", "0:3,1:3,1:4")}
