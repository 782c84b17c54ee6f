"""What `__remote_log_metadata` ever told of certain segments: a partition of it, read anew from its start.

Who reads the topic forgets a segment that was removed, or else it would know ever more of them. So when there
are objects of a segment that it does not know, the records themselves are asked: was its removal told, or is
it never mentioned? Then records were lost. That is seldom asked, and costs as much as a start.
"""

from collections.abc import Collection

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import uuid_text
from headrace.node.remote_metadata_reading import values_from
from headrace.tiered.remote_segment import SegmentState
from headrace.tiered.segment_records import decode_record
from headrace.wire.framing import read_response
from headrace.wire.record_frames import UnknownRecordError
from headrace.wire.schemas.fetch import FetchResponse

_GOING = (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED)


class Search:
    """How far one partition has been read, and what was `found`: whether the removal of a segment was told,
    by its id as it stands in the names of objects. Those that are missing there were never mentioned.
    """

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = ids
        self.found: dict[str, bool] = {}
        self.position = 0

    def begin(self, start: int) -> None:
        """Read from the partition's start, or go on where that is behind."""
        self.position = max(self.position, start)

    def take(self, frame: memoryview, version: int) -> ErrorCode:
        """Take an answer in; the error that it brought."""
        response = read_response(FetchResponse, version, frame)
        if response.error_code:
            return ErrorCode(response.error_code)
        (data,) = response.responses[0].partitions
        for values, following in values_from(data, self.position):
            for value in values:
                self._look_at(value)
            self.position = following
        return ErrorCode(data.error_code)

    def _look_at(self, value: bytes) -> None:
        try:
            record = decode_record(value)
        except (UnknownRecordError, InvalidBytesError):
            return  # who reads the topic all the time has said so
        if record is not None and (name := uuid_text(record.segment_id)) in self._ids:
            self.found[name] = self.found.get(name, False) or record.state in _GOING
