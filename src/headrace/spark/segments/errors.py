"""What can be wrong with files that are read without the broker that wrote them."""

from headrace.base.errors import InvalidBytesError


class NotInFilesError(Exception):
    """What was asked for is not in the files, or not any more; a broker may still have it."""


class DamagedSegmentError(InvalidBytesError):
    """A batch that readers may see is damaged. Nothing else has it: a broker would send the same bytes."""
