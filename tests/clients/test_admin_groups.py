"""Groups through the administrator, by script: many brokers, older ones, and coordinators that move."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import OffsetAndMetadata
from headrace.clients.assignors.consumer_partition_assignor import encode_assignment
from headrace.clients.errors import GroupBusyError, NoPartitionError, NoSuchGroupError, RefusedError
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeResponse
from headrace.wire.schemas.consumer_group_describe import DescribedGroup as ConsumerGroup
from headrace.wire.schemas.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from headrace.wire.schemas.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from headrace.wire.schemas.find_coordinator import Coordinator, FindCoordinatorResponse
from headrace.wire.schemas.list_groups import ListedGroup, ListGroupsResponse
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.schemas.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.wire.schemas.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headrace.wire.schemas.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headrace.wire.schemas.streams_group_describe import (
    Assignment,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from headrace.wire.schemas.streams_group_describe import DescribedGroup as StreamsGroup
from tests.clients.scripted import ScriptedCluster

AT = TopicPartition("t", 0)
OFFSET_FETCH, DESCRIBE_GROUPS, LIST_GROUPS, CONSUMER_GROUP_DESCRIBE = 9, 15, 16, 69


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    """Two brokers; the second coordinates all groups, none of which is a consumer group."""
    with ScriptedCluster(nodes=2) as cluster:
        cluster.handlers["FindCoordinator"] = lambda request, node: home(cluster, 2)
        missing = ConsumerGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        cluster.handlers["ConsumerGroupDescribe"] = lambda request, node: ConsumerGroupDescribeResponse(
            groups=[missing]
        )
        answer(
            cluster,
            "StreamsGroupDescribe",
            StreamsGroupDescribeResponse(groups=[StreamsGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND)]),
        )
        yield cluster


def home(cluster: ScriptedCluster, node: int) -> FindCoordinatorResponse:
    found = Coordinator(key="g", node_id=node, host="127.0.0.1", port=cluster.ports[node])
    return FindCoordinatorResponse(coordinators=[found])


def answer(scripted: ScriptedCluster, name: str, *responses: Any) -> None:
    """One answer after another, and the last one again and again."""
    left = list(responses)
    scripted.handlers[name] = lambda request, node: left.pop(0) if len(left) > 1 else left[0]


class TestList:
    def test_from_all_brokers(self, scripted: ScriptedCluster) -> None:
        own = {
            1: ListedGroup("b", "consumer", "Stable", "consumer"),
            2: ListedGroup("a", "", "Empty", "classic"),
        }
        scripted.handlers["ListGroups"] = lambda request, node: ListGroupsResponse(groups=[own[node]])
        with scripted.admin() as admin:
            assert [(each.group_id, each.coordinator) for each in admin.list_groups()] == [("a", 2), ("b", 1)]
            assert [each.group_id for each in admin.list_groups(states=["STABLE"])] == ["b"]
            assert [each.group_id for each in admin.list_groups(types=["classic", "share"])] == ["a"]

    def test_of_brokers_without_states_and_types(self, scripted: ScriptedCluster) -> None:
        scripted.versions[LIST_GROUPS] = (0, 3)
        answer(scripted, "ListGroups", ListGroupsResponse(groups=[ListedGroup("g", "consumer")]))
        with scripted.admin() as admin:
            assert {(each.type, each.state) for each in admin.list_groups()} == {("classic", "")}

    def test_a_cluster_that_names_no_broker_is_asked_again(self, scripted: ScriptedCluster) -> None:
        """As one does whose only broker is fenced for a moment: none is not the same as nothing."""
        whole = scripted.handlers["Metadata"]
        asked: list[int] = []

        def metadata(request: Any, node: int) -> Any:
            answer = whole(request, node)
            asked.append(node)
            if len(asked) in (2, 3):  # the first is the client's own, when it connects
                answer.brokers = []
            return answer

        scripted.handlers["Metadata"] = metadata
        answer(scripted, "ListGroups", ListGroupsResponse(groups=[ListedGroup("g", "consumer")]))
        with scripted.admin() as admin:
            admin.list_topics()
            assert {each.group_id for each in admin.list_groups()} == {"g"}
        assert len(asked) > 3

    def test_waits_for_one_that_loads(self, scripted: ScriptedCluster) -> None:
        loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        answer(scripted, "ListGroups", loading, ListGroupsResponse())
        with scripted.admin() as admin:
            assert admin.list_groups() == []


class TestDescribe:
    def test_a_streams_group(self, scripted: ScriptedCluster) -> None:
        """Its members read what their active tasks read."""
        parts = [
            Subtopology("0", ["t", "u"]),
            Subtopology("1", repartition_source_topics=[TopicInfo("g-repartition")]),
        ]
        tasks = Assignment([TaskIds("0", [1]), TaskIds("1", [0])], [TaskIds("1", [5])])
        member = Member("m", 3, client_id="c", client_host="/10.0.0.1", assignment=tasks)
        group = StreamsGroup(
            group_id="g", group_state="Stable", group_epoch=3, topology=Topology(0, parts), members=[member]
        )
        answer(scripted, "StreamsGroupDescribe", StreamsGroupDescribeResponse(groups=[group]))
        with scripted.admin() as admin:
            found = admin.describe_group("g")
        assert (found.type, found.state, found.epoch, found.coordinator) == ("streams", "Stable", 3, 2)
        (described,) = found.members
        assert (described.host, described.epoch) == ("10.0.0.1", 3)
        assert described.assignment == [
            TopicPartition("g-repartition", 0),
            TopicPartition("t", 1),
            TopicPartition("u", 1),
        ]

    def test_a_classic_group_of_an_older_broker(self, scripted: ScriptedCluster) -> None:
        del scripted.versions[CONSUMER_GROUP_DESCRIBE]
        scripted.versions[DESCRIBE_GROUPS] = (0, 5)
        member = DescribedGroupMember("m", None, "c", "/10.0.0.1", b"", encode_assignment([AT]))
        group = DescribedGroup(
            group_id="g",
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="range",
            members=[member],
        )
        answer(scripted, "DescribeGroups", DescribeGroupsResponse(groups=[group]))
        with scripted.admin() as admin:
            described = admin.describe_group("g")
        assert (described.type, described.protocol, described.coordinator) == ("classic", "range", 2)
        assert (described.members[0].host, described.members[0].assignment) == ("10.0.0.1", [AT])

    @pytest.mark.parametrize(("kind", "raw"), [("connect", b"\0\1abc"), ("consumer", b"\0")])
    def test_assignments_that_only_members_can_read(
        self, scripted: ScriptedCluster, kind: str, raw: bytes
    ) -> None:
        group = DescribedGroup(
            group_state="Stable",
            protocol_type=kind,
            members=[DescribedGroupMember("m", member_assignment=raw)],
        )
        answer(scripted, "DescribeGroups", DescribeGroupsResponse(groups=[group]))
        with scripted.admin() as admin:
            assert admin.describe_group("g").members[0].assignment == []

    @pytest.mark.parametrize(
        ("version", "group"),
        [
            (5, DescribedGroup(group_state="Dead")),
            (6, DescribedGroup(group_state="Dead", error_code=ErrorCode.GROUP_ID_NOT_FOUND)),
        ],
    )
    def test_none(self, scripted: ScriptedCluster, version: int, group: DescribedGroup) -> None:
        scripted.versions[DESCRIBE_GROUPS] = (0, version)
        answer(scripted, "DescribeGroups", DescribeGroupsResponse(groups=[group]))
        with scripted.admin() as admin, pytest.raises(NoSuchGroupError, match="headrace group list"):
            admin.describe_group("g")

    def test_a_coordinator_that_moved_is_looked_for_again(self, scripted: ScriptedCluster) -> None:
        answer(scripted, "FindCoordinator", home(scripted, 1), home(scripted, 2))

        def handle(request: Any, node: int) -> DescribeGroupsResponse:
            code = ErrorCode.NONE if node == 2 else ErrorCode.NOT_COORDINATOR
            return DescribeGroupsResponse(groups=[DescribedGroup(error_code=code, group_state="Empty")])

        scripted.handlers["DescribeGroups"] = handle
        with scripted.admin() as admin:
            assert admin.describe_group("g").coordinator == 2


class TestOffsets:
    def test_committed(self, scripted: ScriptedCluster) -> None:
        partitions = [OffsetFetchResponsePartitions(0, 5, 1, "note"), OffsetFetchResponsePartitions(1, -1)]
        group = OffsetFetchResponseGroup("g", [OffsetFetchResponseTopics(name="t", partitions=partitions)])
        answer(scripted, "OffsetFetch", OffsetFetchResponse(groups=[group]))
        with scripted.admin() as admin:
            assert admin.group_offsets("g") == {AT: OffsetAndMetadata(5, 1, "note")}
        ((node, version, request),) = [
            (node, version, request)
            for node, name, version, request in scripted.requests
            if name == "OffsetFetch"
        ]
        assert (node, version, request.groups[0].topics) == (2, 9, None)

    def test_committed_at_an_older_broker(self, scripted: ScriptedCluster) -> None:
        scripted.versions[OFFSET_FETCH] = (1, 7)
        topic = OffsetFetchResponseTopic("t", [OffsetFetchResponsePartition(0, 5)])
        answer(scripted, "OffsetFetch", OffsetFetchResponse(topics=[topic]))
        with scripted.admin() as admin:
            assert admin.group_offsets("g") == {AT: OffsetAndMetadata(5)}

    def test_ends_of_what_is_there(self, scripted: ScriptedCluster) -> None:
        topic = ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(0, offset=9)])
        answer(scripted, "ListOffsets", ListOffsetsResponse(topics=[topic]))
        with scripted.admin() as admin:
            gone = [TopicPartition("gone", 0), TopicPartition("t", 7)]
            assert admin.end_offsets([AT, *gone]) == {AT: 9}
            assert admin.end_offsets(gone) == admin.end_offsets([]) == {}

    def test_written_from_outside(self, scripted: ScriptedCluster) -> None:
        def result(code: int) -> OffsetCommitResponse:
            partition = OffsetCommitResponsePartition(0, code)
            return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])

        answer(scripted, "OffsetCommit", result(0), result(ErrorCode.UNKNOWN_MEMBER_ID))
        with scripted.admin() as admin:
            admin.alter_group_offsets("g", {AT: OffsetAndMetadata(3)})
            asked = scripted.asked("OffsetCommit")[0]
            assert (asked.generation_id_or_member_epoch, asked.member_id) == (-1, "")
            with pytest.raises(GroupBusyError, match="stop its consumers first"):
                admin.alter_group_offsets("g", {AT: OffsetAndMetadata(3)})


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, NoSuchGroupError),
        (ErrorCode.NON_EMPTY_GROUP, GroupBusyError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, RefusedError),
    ],
)
def test_what_may_not_be_deleted(scripted: ScriptedCluster, code: int, kind: type[RefusedError]) -> None:
    answer(scripted, "DeleteGroups", DeleteGroupsResponse(results=[DeletableGroupResult("g", code)]))
    answer(scripted, "OffsetDelete", OffsetDeleteResponse(error_code=code))
    with scripted.admin() as admin:
        with pytest.raises(kind, match="'g'"):
            admin.delete_group("g")
        with pytest.raises(kind, match="'g'"):
            admin.delete_group_offsets("g", [AT])


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, RefusedError, "read topic t now; stop them first"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NoPartitionError, "there is no such partition"),
    ],
)
def test_offsets_that_may_not_be_deleted(
    scripted: ScriptedCluster, code: int, kind: type[RefusedError], told: str
) -> None:
    topic = OffsetDeleteResponseTopic("t", [OffsetDeleteResponsePartition(0, code)])
    answer(scripted, "OffsetDelete", OffsetDeleteResponse(topics=[topic]))
    with scripted.admin() as admin, pytest.raises(kind, match=told):
        admin.delete_group_offsets("g", [AT])
    assert len(scripted.asked("OffsetDelete")) == 1
