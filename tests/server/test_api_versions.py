"""ApiVersions: exactly what the table lists, and the features of the cluster."""

from types import SimpleNamespace

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.metadata.image import MetadataImage
from headrace.server.api_table import ApiTable, Row
from headrace.server.authority import OPEN
from headrace.server.context import RequestContext
from headrace.server.handlers.api_versions import handle
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.metadata_records import FeatureLevelRecord
from tests.server.node_world import simulated

ROWS = [
    Row(18, 0, 4, "api_versions", OPEN),
    Row(0, 3, 13, "produce", OPEN),
    Row(1, 5, 12, "fetch", OPEN),
]


def ask(version, name="kafka", number="4.3.1"):
    image = MetadataImage("cluster")
    image.replay(FeatureLevelRecord("metadata.version", 30))
    image.replay(FeatureLevelRecord("group.version", 1))
    image.mark(offset=319, epoch=1, timestamp_ms=0)
    peer = SimpleNamespace(table=ApiTable(ROWS), software_name="", software_version="")
    parts = SimpleNamespace(image=image)
    context = RequestContext(18, version, 1, "c", peer, parts)
    return handle(context, ApiVersionsRequest(name, number)), peer


def test_the_table_is_listed_and_nothing_else():
    response, _ = ask(4)
    assert [(one.api_key, one.min_version, one.max_version) for one in response.api_keys] == [
        (0, 0, 13),  # Produce is told from 0 on for old clients
        (1, 5, 12),  # versions are the row's, not all that the wire can read
        (18, 0, 4),
    ]


def test_features_that_start_at_0_are_told_from_v4_on():
    response, _ = ask(3)
    assert [(one.name, one.min_version, one.max_version) for one in response.supported_features] == [
        ("metadata.version", 7, 32)
    ]
    names = {one.name for one in ask(4)[0].supported_features}
    assert names == {
        "metadata.version",
        "kraft.version",
        "transaction.version",
        "group.version",
        "share.version",
        "streams.version",
        "eligible.leader.replicas.version",
    }


def test_finalized_levels_come_from_the_image():
    response, _ = ask(3)
    assert response.finalized_features_epoch == 319
    assert {
        (one.name, one.min_version_level, one.max_version_level) for one in response.finalized_features
    } == {
        ("metadata.version", 30, 30),
        ("group.version", 1, 1),
    }


def test_the_client_says_what_it_is():
    _, peer = ask(3, "librdkafka", "2.16.0")
    assert (peer.software_name, peer.software_version) == ("librdkafka", "2.16.0")


@pytest.mark.parametrize("text", ["", "a b", "-a", "a-", ".a", "a\n", "ä", "a" * 1000 + "!"])
def test_what_is_no_name_is_refused(text):
    with pytest.raises(ApiError) as error:
        ask(3, text)
    assert error.value.code == ErrorCode.INVALID_REQUEST
    with pytest.raises(ApiError):
        ask(3, "good", text)
    ask(2, text)  # not sent before v3


@pytest.mark.parametrize(
    ("setting", "latest"),
    [("", 5), ("unstable_api_versions_enable", 6), ("transaction_two_phase_commit_enable", 6)],
)
def test_two_phase_commit_is_told_of_where_it_is_asked_for(setting, latest):
    """As Kafka tells of versions that are not settled; and where an administrator allows it."""

    @simulated(**{setting: "true"} if setting else {})
    async def ask_the_node(world):
        client = await world.connect()
        reply = await client.ask(ApiVersionsRequest("kafka", "4.3.1"), 4)
        versions = {each.api_key: each.max_version for each in reply.api_keys}
        assert versions[ApiKey.INIT_PRODUCER_ID] == latest
        levels = {each.name: each.max_version_level for each in reply.finalized_features}
        assert (levels.get("share.version"), levels.get("streams.version")) == (1, 1)

    ask_the_node()


@simulated()
async def test_who_means_somebody_else_is_told_to_begin_anew(world):
    client = await world.connect()
    cluster_id, node_id = world.node.parts.cluster_id, 1
    for meant, error in (
        ((None, -1), ErrorCode.NONE),
        ((cluster_id, node_id), ErrorCode.NONE),
        ((cluster_id, -1), ErrorCode.NONE),
        ((cluster_id, 2), ErrorCode.REBOOTSTRAP_REQUIRED),
        (("another", node_id), ErrorCode.REBOOTSTRAP_REQUIRED),
    ):
        reply = await client.ask(ApiVersionsRequest("kafka", "4.4.0", *meant), 5)
        assert reply.error_code == error, meant
        assert bool(reply.api_keys) == (error == ErrorCode.NONE)
