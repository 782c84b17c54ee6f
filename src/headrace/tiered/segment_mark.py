"""What stands in a segment's custom metadata: see `custom_metadata`."""

from typing import Final

CLEAN_TO: Final = b"clean-to="
LOG_START: Final = b"log-start="
GIVEN_UP: Final = b"given-up"
"""With a repeated announcement: the copy can no longer be finished. Announcements have no note of a store."""
SEPARATOR: Final = b";"


def joined(clean_to: int | None, note: bytes | None) -> bytes | None:
    """The field for a mark and a note."""
    if clean_to is None and (note is None or not note.startswith(CLEAN_TO)):
        return note
    mark = CLEAN_TO + (b"" if clean_to is None else b"%d" % clean_to)
    return mark if note is None else mark + SEPARATOR + note


def parted(field: bytes | None) -> tuple[int | None, bytes | None]:
    """The mark and the note of a field."""
    if field is None or not field.startswith(CLEAN_TO):
        return None, field
    digits, separator, note = field.removeprefix(CLEAN_TO).partition(SEPARATOR)
    if digits and not digits.isdigit():
        return None, field  # nobody but us writes marks
    return int(digits) if digits else None, note if separator else None


def start_mark(offset: int, epoch: int) -> bytes:
    """With the removal of a segment: where the log starts from then on, and which leader epoch wrote the last
    record before.
    """
    return LOG_START + b"%d@%d" % (offset, epoch)


def told_start(field: bytes) -> tuple[int, int] | None:
    """What such a mark tells; None where there is none."""
    offset, _, epoch = field.removeprefix(LOG_START).partition(b"@")
    if not field.startswith(LOG_START) or not offset.isdigit() or not epoch.isdigit():
        return None
    return int(offset), int(epoch)
