"""Share groups through the administrator, by script: what brokers answer, and what a person is told."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import SharePartitionOffsetInfo
from headrace.clients.errors import (
    GroupBusyError,
    NoPartitionError,
    NoSuchGroupError,
    RefusedError,
    UnsupportedError,
)
from headrace.wire.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from headrace.wire.schemas.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from headrace.wire.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from headrace.wire.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from headrace.wire.schemas.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from tests.clients.scripted import ScriptedCluster
from tests.clients.test_admin_groups import answer, home

AT = TopicPartition("t", 0)
SHARE_GROUP_DESCRIBE, DESCRIBE_SHARE_GROUP_OFFSETS = 77, 90


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    """Two brokers; the second coordinates all groups."""
    with ScriptedCluster(nodes=2) as cluster:
        cluster.handlers["FindCoordinator"] = lambda request, node: home(cluster, 2)
        yield cluster


def described(*members: Member, **fields: Any) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[DescribedGroup(members=list(members), **fields)])


def stands(*partitions: DescribeShareGroupOffsetsResponsePartition) -> DescribeShareGroupOffsetsResponse:
    topic = DescribeShareGroupOffsetsResponseTopic("t", partitions=list(partitions))
    return DescribeShareGroupOffsetsResponse(groups=[DescribeShareGroupOffsetsResponseGroup("g", [topic])])


class TestDescribe:
    def test_members_and_what_they_read(self, scripted: ScriptedCluster) -> None:
        reads = Assignment([TopicPartitions(topic_name="t", partitions=[1, 0])])
        member = Member("m", "rack", 3, "c", "/10.0.0.1", ["u", "t"], reads)
        fields = {"group_state": "Stable", "group_epoch": 5, "assignment_epoch": 4, "assignor_name": "simple"}
        answer(scripted, "ShareGroupDescribe", described(member, **fields))
        with scripted.admin() as admin:
            [found] = admin.describe_share_groups("g")
        assert found[:6] == ("g", "Stable", "simple", 2, 5, 4)
        assert found.members == [
            ("m", "c", "10.0.0.1", "rack", 3, ["t", "u"], [TopicPartition("t", 0), TopicPartition("t", 1)])
        ]

    def test_one_that_is_not_there(self, scripted: ScriptedCluster) -> None:
        answer(scripted, "ShareGroupDescribe", described(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        with scripted.admin() as admin:
            with pytest.raises(NoSuchGroupError, match=r"no such share group; .*`headrace share-group list`"):
                admin.describe_share_groups(["g", "h"])
            assert admin.describe_share_groups([]) == []

    def test_brokers_without_share_groups(self, scripted: ScriptedCluster) -> None:
        del scripted.versions[SHARE_GROUP_DESCRIBE]
        with scripted.admin() as admin, pytest.raises(UnsupportedError):
            admin.describe_share_groups("g")


class TestOffsets:
    def test_lags_that_are_known_and_partitions_that_are_not_read(self, scripted: ScriptedCluster) -> None:
        told = stands(
            DescribeShareGroupOffsetsResponsePartition(0, 5, 1, 7),
            DescribeShareGroupOffsetsResponsePartition(1, -1),
            DescribeShareGroupOffsetsResponsePartition(2, 0, 2, -1),
        )
        answer(scripted, "DescribeShareGroupOffsets", told)
        with scripted.admin() as admin:
            assert admin.list_share_group_offsets("g") == {
                AT: SharePartitionOffsetInfo(5, 1, 7),
                TopicPartition("t", 2): SharePartitionOffsetInfo(0, 2, None),
            }
            admin.list_share_group_offsets("g", [TopicPartition("t", 2), AT])
            assert admin.list_share_group_offsets("g", []) == {}
        every, some = scripted.asked("DescribeShareGroupOffsets")
        assert every.groups[0].topics is None
        assert [(each.topic_name, each.partitions) for each in some.groups[0].topics] == [("t", [0, 2])]

    def test_a_broker_that_tells_no_lag(self, scripted: ScriptedCluster) -> None:
        scripted.versions[DESCRIBE_SHARE_GROUP_OFFSETS] = (0, 0)
        answer(
            scripted, "DescribeShareGroupOffsets", stands(DescribeShareGroupOffsetsResponsePartition(0, 5))
        )
        with scripted.admin() as admin:
            assert admin.list_share_group_offsets("g")[AT].lag is None

    def test_one_that_cannot_be_told(self, scripted: ScriptedCluster) -> None:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = DescribeShareGroupOffsetsResponsePartition(0, error_code=code)
        answer(scripted, "DescribeShareGroupOffsets", stands(partition))
        with (
            scripted.admin() as admin,
            pytest.raises(RefusedError, match=r"where share group 'g' stands in t-0"),
        ):
            admin.list_share_group_offsets("g")

    def test_setting(self, scripted: ScriptedCluster) -> None:
        wrong = AlterShareGroupOffsetsResponsePartition(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic = AlterShareGroupOffsetsResponseTopic("t", partitions=[wrong])
        busy = AlterShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        moved = AlterShareGroupOffsetsResponse(error_code=ErrorCode.NOT_COORDINATOR)
        refused = AlterShareGroupOffsetsResponse(responses=[topic])
        answer(scripted, "AlterShareGroupOffsets", moved, AlterShareGroupOffsetsResponse(), busy, refused)
        with scripted.admin() as admin:
            admin.alter_share_group_offsets("g", {TopicPartition("u", 2): 8, AT: 5})
            with pytest.raises(GroupBusyError, match=r"cannot set offsets of group 'g': it has members"):
                admin.alter_share_group_offsets("g", {AT: 5})
            with pytest.raises(NoPartitionError, match=r"in t-1: there is no such partition"):
                admin.alter_share_group_offsets("g", {TopicPartition("t", 1): 5})
        first = scripted.asked("AlterShareGroupOffsets")[0]
        assert [
            (topic.topic_name, each.partition_index, each.start_offset)
            for topic in first.topics
            for each in topic.partitions
        ] == [("t", 0, 5), ("u", 2, 8)]

    def test_forgetting(self, scripted: ScriptedCluster) -> None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        gone = DeleteShareGroupOffsetsResponse(
            responses=[
                DeleteShareGroupOffsetsResponseTopic("t", error_code=code, error_message="nothing there")
            ]
        )
        answer(scripted, "DeleteShareGroupOffsets", DeleteShareGroupOffsetsResponse(), gone)
        with scripted.admin() as admin:
            admin.delete_share_group_offsets("g", "t")
            with pytest.raises(
                NoPartitionError, match=r"offsets of topic 't' in share group 'g': nothing there"
            ):
                admin.delete_share_group_offsets("g", ["t"])
        (asked,) = scripted.asked("DeleteShareGroupOffsets")[0].topics
        assert asked.topic_name == "t"


class TestDelete:
    def test_groups_that_nobody_is_in(self, scripted: ScriptedCluster) -> None:
        answer(scripted, "ShareGroupDescribe", described(group_state="Empty"))
        done = DeletableGroupResult("g")
        answer(scripted, "DeleteGroups", DeleteGroupsResponse(results=[done]))
        with scripted.admin() as admin:
            admin.delete_share_groups(["g"])
        assert [each.groups_names for each in scripted.asked("DeleteGroups")] == [["g"]]

    @pytest.mark.parametrize(
        ("told", "error"),
        [
            (described(Member("m"), group_state="Stable"), GroupBusyError),
            (described(error_code=ErrorCode.GROUP_ID_NOT_FOUND), NoSuchGroupError),
        ],
    )
    def test_others_are_left(
        self, scripted: ScriptedCluster, told: ShareGroupDescribeResponse, error: type[RefusedError]
    ) -> None:
        answer(scripted, "ShareGroupDescribe", told)
        with scripted.admin() as admin, pytest.raises(error):
            admin.delete_share_groups("g")
        assert scripted.asked("DeleteGroups") == []
