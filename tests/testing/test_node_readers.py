"""The live consumer finds what it is there to find: a rule that cannot fail would prove nothing."""

import asyncio
from types import SimpleNamespace

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.records.batch import Record, build_batch
from headrace.testing.scenarios.node import check_seen
from headrace.testing.scenarios.node_readers import LiveConsumer
from headrace.testing.world import CheckFailedError
from headrace.wire.schemas.fetch import FetchableTopicResponse, FetchResponse, PartitionData


class NeverLucky:
    """Neither goes back nor forgets its session."""

    def random(self):
        return 1.0

    def choice(self, values):
        return values[0]


class ScriptedLink:
    """Gives the replies of a script, then asks the consumer to stop."""

    def __init__(self, consumer, replies):
        self.own = SimpleNamespace(rng=NeverLucky())
        self.consumer = consumer
        self.replies = list(replies)
        self.requests = []

    async def ask(self, request, version, response):
        self.requests.append(request)
        reply = self.replies.pop(0)
        self.consumer.stopping = not self.replies
        return reply

    async def pause(self):
        pass


def data_of(offset, *values):
    batch = build_batch([Record(0, 0, None, value) for value in values], base_offset=offset)
    return bytes(batch)


def reply(records=b"", *, error=0, session_id=7):
    data = PartitionData(0, error, records=records)
    return FetchResponse(
        session_id=session_id, responses=[FetchableTopicResponse("events", partitions=[data])]
    )


def consume(*replies, settled=True):
    consumer = LiveConsumer(1, lambda partition, offset: settled)
    link = ScriptedLink(consumer, replies)
    asyncio.run(consumer.run(link))
    return consumer, link


def test_it_follows_a_session():
    lost = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    consumer, link = consume(
        reply(data_of(0, b"a", b"b")), reply(), reply(data_of(2, b"c")), None, reply(), lost, reply()
    )
    assert consumer.seen == [{0: b"a", 1: b"b", 2: b"c"}]
    asked = [
        (request.session_id, request.session_epoch, [t.partitions[0].fetch_offset for t in request.topics])
        for request in link.requests
    ]
    assert asked == [
        (0, 0, [0]),
        (7, 1, [2]),
        (7, 2, []),
        (7, 3, [3]),
        (0, 0, [3]),
        (7, 1, []),
        (0, 0, [3]),
    ]


FLIPPED = bytearray(data_of(1, b"b"))
FLIPPED[-2] ^= 1


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        (reply(data_of(2, b"c")), "gave offset 2 where 1 should be"),
        (reply(bytes(FLIPPED)), "cannot be read: the batch of offset 1"),
        (reply(error=ErrorCode.OFFSET_OUT_OF_RANGE), "cannot be read: OFFSET_OUT_OF_RANGE"),
        (reply(error=ErrorCode.CORRUPT_MESSAGE), "cannot be read: CORRUPT_MESSAGE"),
        (FetchResponse(error_code=ErrorCode.INVALID_REQUEST), "was told INVALID_REQUEST"),
    ],
)
def test_what_is_wrong_is_found(second, complaint):
    with pytest.raises(CheckFailedError, match=complaint):
        consume(reply(data_of(0, b"a")), second)


def test_a_value_that_changed_is_found():
    consumer, _ = consume(reply(data_of(0, b"a")))
    consumer.stopping = False
    consumer._go_back(0, 0.0)
    with pytest.raises(CheckFailedError, match="changed the value at offset 0"):
        asyncio.run(consumer.run(ScriptedLink(consumer, [reply(data_of(0, b"x"))])))


def test_what_need_not_stay_is_looked_at_again():
    consumer, link = consume(
        reply(data_of(0, b"a", b"b")),
        reply(error=ErrorCode.OFFSET_OUT_OF_RANGE),
        reply(data_of(0, b"a", b"x")),
        settled=False,
    )
    assert consumer.seen == [{0: b"a", 1: b"x"}]
    assert link.requests[-1].topics[0].partitions[0].fetch_offset == 0


def test_what_was_read_and_is_lost_is_found():
    check_seen(0, {0: b"a"}, [(0, b"a"), (1, b"b")])
    with pytest.raises(CheckFailedError, match="offset 1 is lost"):
        check_seen(0, {0: b"a", 1: b"b"}, [(0, b"a")])
