"""What is wrong with a cluster, out of its picture; and the courses that charts are drawn from."""

import sys
import time

from headrace.base.ids import TopicPartition
from headrace.clients import (
    ActiveProducer,
    BrokerDescription,
    ClusterDescription,
    LogDirDescription,
    QuorumInfo,
    QuorumMember,
    TopicPartitionInfo,
)
from headrace.console.cluster_picture import ClusterPicture, TopicPicture
from headrace.console.course import (
    SAMPLES_MAX,
    SERIES_BYTES,
    SERIES_MAX,
    Course,
    CourseMemory,
    rate_of,
    rates_of,
)
from headrace.console.health import troubles


def picture(*partitions: TopicPartitionInfo, fenced: bool = False) -> ClusterPicture:
    brokers = [BrokerDescription(each, "host", 9092, None, fenced and each == 3) for each in (1, 2, 3)]
    made = ClusterPicture(0, ClusterDescription("id", 1, brokers))
    made.topics = {"a/b": TopicPicture("a/b", "", False, list(partitions))}
    return made


def test_all_is_well() -> None:
    assert troubles(picture(TopicPartitionInfo(0, 1, 0, [1, 2], [2, 1], []))) == []


def test_partitions_that_lack_the_same_are_one_trouble() -> None:
    poor = [TopicPartitionInfo(number, 1, 0, [1, 3], [1], [3]) for number in range(8)]
    found = troubles(picture(*poor, TopicPartitionInfo(8, -1, 0, [3], [], [3]), fenced=True))
    assert [(each.level, each.where) for each in found] == [
        ("error", "a/b-8"),
        ("error", "broker 3"),
        ("warning", "a/b-0, a/b-1, a/b-2, a/b-3, a/b-4 and 3 more"),
    ]
    assert found[0].what.startswith("no leader")
    assert found[2].advice.startswith("start broker 3")
    assert found[2].link == "topics/a%2Fb", "a name is one part of an address"


def test_peoples_own_topics_are_named_first() -> None:
    made = picture(TopicPartitionInfo(0, 1, 0, [1, 3], [1], [3]))
    poor = [TopicPartitionInfo(number, 1, 0, [1, 3], [1], [3]) for number in range(9)]
    made.topics = {"__internal": TopicPicture("__internal", "", True, poor), **made.topics}
    [found] = troubles(made)
    assert found.where.startswith("a/b-0, __internal-0")


def test_too_few_in_sync_is_an_error() -> None:
    made = picture(TopicPartitionInfo(0, 1, 0, [1, 2, 3], [1], []))
    made.min_in_sync = {"a/b": 2}
    [found] = troubles(made)
    assert (found.level, found.what) == (
        "error",
        "acks=all is refused: not in sync: brokers 2, 3; min.insync.replicas is 2",
    )


def test_transactions_that_hang_are_one_trouble() -> None:
    hanging = [ActiveProducer(TopicPartition("t", number % 7), number, 0, 0, 0, 0, 0) for number in range(14)]
    [found] = troubles(picture(), hanging)
    assert (found.level, found.where, found.link) == (
        "error",
        "t-0, t-1, t-2, t-3, t-4 and 2 more",
        "transactions",
    )


def test_folders_brokers_and_the_quorum() -> None:
    made = picture()
    made.unreachable = {2: "nobody answers"}
    made.folders = [
        LogDirDescription(1, "/full", "", {}, 1000, 10),
        LogDirDescription(1, "/gone", "KAFKA_STORAGE_ERROR", {TopicPartition("t", 0): 1}, -1, -1),
        LogDirDescription(1, "/well", "", {}, 1000, 900),
    ]
    now_ms = int(time.time() * 1000)
    members = [
        QuorumMember(1, 5000, True, last_caught_up_ms=now_ms - 3_600_000),
        QuorumMember(2, 10, True, last_caught_up_ms=now_ms),
    ]
    made.quorum = QuorumInfo(1, 1, 5000, members)
    said = [(each.level, each.where, each.what.split(":")[0]) for each in troubles(made)]
    assert said == [
        ("error", "broker 1, /gone", "the folder is offline"),
        ("error", "broker 2", "it cannot be reached at host"),
        ("warning", "broker 1, /full", "1.0 % of the disk are free"),
        ("warning", "node 1", "its clock is 3600 s behind the console's"),
        ("warning", "node 2", "it is 4990 records behind the metadata log"),
    ]


def test_a_course_is_bounded_and_forgets_who_is_gone() -> None:
    course = Course()
    for number in range(SAMPLES_MAX + 10):
        course.add({"old": number} if number < 5 else {"old": number, "new": 1}, min(number, SAMPLES_MAX - 1))
    assert len(course.of("old")) == SAMPLES_MAX
    assert course.of("old")[-1] == SAMPLES_MAX + 9
    assert course.last("new", 2) == [1, 1]
    course.add({"new": 2}, SAMPLES_MAX - 1)
    assert course.of("old") == []


def test_courses_share_a_memory_evenly_and_who_needs_little_gets_it() -> None:
    memory = CourseMemory(100 * SERIES_BYTES)
    small, large, larger = Course(memory), Course(memory), Course(memory)
    small.add({"a": 1}, 0)
    large.add({str(number): number for number in range(500)}, 0)
    assert (len(small), len(large)) == (1, 99)
    larger.add({str(number): number for number in range(1000)}, 0)
    large.add({str(number): number for number in range(500)}, 1)
    assert (len(small), len(large), len(larger)) == (1, 49, 49)
    assert large.of("499") == [499, 499], "what stands highest is kept"
    assert large.of("400") == []
    larger.close()
    large.add({str(number): number for number in range(500)}, 2)
    assert (len(large), len(larger)) == (99, 0)
    assert large.of("440") == [None, None, 440]


def test_two_hundred_people_do_not_take_more_than_all_courses_may() -> None:
    """What is there takes no more than it is counted for, so the count is the bound."""
    memory = CourseMemory(2000 * SERIES_BYTES)
    courses = [Course(memory) for _ in range(400)]
    values = {f"topic-{number}": number for number in range(1000)}
    for at in range(3):
        for course in courses:
            course.add(values, at)
    assert sum(map(len, courses)) == 2000
    course = Course()
    for at in range(SAMPLES_MAX + 5):
        course.add({"a": at}, min(at, SAMPLES_MAX - 1))
    assert sys.getsizeof(course._columns["a"]) <= SERIES_BYTES
    many = Course()
    many.add({str(number): number for number in range(SERIES_MAX + 5)}, 0)
    assert len(many) == SERIES_MAX


def test_a_newcomer_has_nothing_before_its_time() -> None:
    course = Course()
    course.add({"a": 1}, 0)
    course.add({"a": 2, "b": 7}, 1)
    assert course.of("b") == [None, 7]


def test_rates() -> None:
    assert rate_of([1000, 3000], [10, 30]) == 10
    assert rate_of([1000, 3000], [30, 10]) == 0, "a topic that was made anew"
    assert rate_of([1000, 1000], [1, 2]) is None
    assert rate_of([1000, 3000], [None, 2]) is None
    assert rates_of([0, 1000, 2000], [1, 2, 4]) == [1, 2]
