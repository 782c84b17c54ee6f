"""What can be wrong with files that are read without the broker that wrote them."""

from headrace.base.errors import InvalidBytesError


class NotInFilesError(Exception):
    """What was asked for is not in the files, or not any more; a broker may still have it.

    `resume_at` is the next offset that the files do have, where that is known.
    """

    def __init__(self, text: str, resume_at: int | None = None) -> None:
        super().__init__(text)
        self.resume_at = resume_at


class DamagedSegmentError(InvalidBytesError):
    """A batch that readers may see is damaged. Nothing else has it: a broker would send the same bytes."""
