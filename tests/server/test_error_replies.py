"""Errors stand where Apache Kafka's own requests put them.

`error_replies.kafka-4.3.1.txt` has a filled sample of every version of every request, and the body of the
reply that Kafka's `getErrorResponse` makes of it. It was written by `ErrorReplies.java`, which the last test
runs again.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.error_replies import error_reply, forget_records
from headrace.wire.apis import API
from headrace.wire.codec import decode, encode
from headrace.wire.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from headrace.wire.schemas.metadata import MetadataRequest, MetadataResponse
from headrace.wire.schemas.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.wire.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

HERE = Path(__file__).parent
RECORDED = HERE / "error_replies.kafka-4.3.1.txt"
ERROR = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not for you")

# Where we say more or less than Kafka, on purpose: the users that were asked for, and no list of topics that
# are not being reassigned.
DEVIATIONS = {50: "user", 46: "topics"}


def samples():
    for line in RECORDED.read_text().splitlines():
        key, version, request, response = line.split()
        yield int(key), int(version), bytes.fromhex(request.replace("-", "")), bytes.fromhex(response)


def plain(value, ignored):
    """A message as comparable data: without texts (ours differ) and without order (Kafka's maps lose it)."""
    if isinstance(value, list):
        return sorted((plain(one, ignored) for one in value), key=repr)
    if hasattr(type(value), "__field_defaults__"):
        return {
            name: plain(getattr(value, name), ignored)
            for name in value.__slots__
            if name not in ("error_message", ignored)
        }
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize("key", sorted({key for key, *_ in samples()}))
def test_errors_stand_where_kafka_puts_them(key):
    api = API[key]
    for sample_key, version, asked, told in samples():
        if sample_key == key:
            request = decode(api.request, version, asked)
            reply = error_reply(request, api.response, version, ERROR)
            ours = decode(api.response, version, encode(reply, version))
            kafkas = decode(api.response, version, told)
            assert plain(ours, DEVIATIONS.get(key)) == plain(kafkas, DEVIATIONS.get(key)), f"v{version}"


# Of Kafka 4.4, whose server is not to be had.
NEWER = {(18, 5), (28, 6), (42, 3)}


def test_every_request_is_covered():
    assert NEWER | {(key, version) for key, version, *_ in samples()} == {
        (key, version) for key, api in API.items() for version in range(api.min_version, api.max_version + 1)
    }


def test_a_commit_in_a_transaction_is_answered_by_topic_id():
    topic = TxnOffsetCommitRequestTopic("", b"t" * 16, [TxnOffsetCommitRequestPartition(3)])
    reply = error_reply(TxnOffsetCommitRequest(topics=[topic]), TxnOffsetCommitResponse, 6, ERROR)
    (answer,) = decode(TxnOffsetCommitResponse, 6, encode(reply, 6)).topics
    assert (answer.topic_id, answer.partitions[0].partition_index) == (b"t" * 16, 3)
    assert answer.partitions[0].error_code == ERROR.code


def test_a_producer_that_wants_no_reply_gets_none():
    request = ProduceRequest(
        acks=0, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0)])]
    )
    assert error_reply(request, ProduceResponse, 9, ERROR) is None


def test_what_a_fetch_forgets_is_not_answered():
    request = FetchRequest(
        session_id=9,
        topics=[],
        forgotten_topics_data=[ForgottenTopic("gone", partitions=[1])],
    )
    reply = error_reply(request, FetchResponse, 12, ERROR)
    assert (reply.error_code, reply.session_id, reply.responses) == (31, 9, [])
    request.topics = [FetchTopic("t", partitions=[FetchPartition(3)])]
    assert [topic.topic for topic in error_reply(request, FetchResponse, 12, ERROR).responses] == ["t"]


def test_null_for_all_topics_names_none():
    assert error_reply(MetadataRequest(topics=None), MetadataResponse, 9, ERROR).topics == []


def test_the_message_reaches_the_client():
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(7)])]
    )
    (topic,) = error_reply(request, ProduceResponse, 9, ERROR).responses
    (partition,) = topic.partition_responses
    assert (partition.index, partition.error_code, partition.error_message) == (7, 31, "not for you")


def test_records_are_forgotten():
    data = PartitionProduceData(0, memoryview(b"batch"))
    forget_records(ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[data])]))
    assert data.records is None


@pytest.mark.java
def test_kafka_still_says_what_was_recorded():
    libraries = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache/peers")) / "kafka/4.3.1/libs"
    if not libraries.exists() or shutil.which("java") is None:
        pytest.skip(f"needs a Java runtime and Apache Kafka's jars in {libraries}")
    run = subprocess.run(
        ["java", "-cp", f"{libraries}/*", str(HERE / "ErrorReplies.java"), str(RECORDED)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout == RECORDED.read_text()
