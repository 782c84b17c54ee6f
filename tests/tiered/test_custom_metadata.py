"""Custom metadata: a mark of compaction and a store's note in one field."""

from dataclasses import replace

import pytest

from headrace.log.file_names import LOG
from headrace.testing.disk import VirtualDisk
from headrace.tiered.remote_storage import CustomMetadataSizeLimitExceededError, Finishing, store_of
from headrace.tiered.segment_metadata import joined, parted
from headrace.tiered.stores.folder import FolderStore
from tests.tiered.building import remote_segment


class NotingFolder(FolderStore):
    """Keeps a note with each segment, and gives nothing to whoever does not know it."""

    note = b"shelf 7"

    def finish(self, names: list[str]) -> bytes | None:
        assert any(name.endswith(LOG) for name in names)
        return self.note

    def noted(self, note: bytes) -> FolderStore:
        assert note == self.note
        return FolderStore(self._disk, self._root)


@pytest.mark.parametrize("clean_to", [None, 0, 70])
@pytest.mark.parametrize("note", [None, b"", b"note", b"clean-to=5", b"clean-to=;x", b"a;b", b"\0\xff"])
def test_a_mark_and_a_note_come_back(clean_to: int | None, note: bytes | None) -> None:
    assert parted(joined(clean_to, note)) == (clean_to, note)


def test_fields_as_they_were_written_before_there_were_notes() -> None:
    assert joined(70, None) == b"clean-to=70"
    assert joined(None, b"note") == b"note"
    assert parted(b"clean-to=x") == (None, b"clean-to=x")


def test_a_segment_tells_both() -> None:
    segment = replace(remote_segment(1, 0, 9), custom_metadata=b"clean-to=5;note")
    assert (segment.clean_to, segment.is_cleaned, segment.note) == (5, True, b"note")
    plain = replace(segment, custom_metadata=b"note")
    assert (plain.clean_to, plain.is_cleaned, plain.note) == (None, False, b"note")


def test_a_store_without_notes_is_the_store() -> None:
    store, segment = FolderStore(VirtualDisk(), "/remote"), remote_segment(1, 0, 9)
    finishing = Finishing(store, segment, 128)
    assert finishing() == 0
    assert finishing.finished is segment
    assert store_of(store, replace(segment, custom_metadata=b"note")) is store


@pytest.mark.parametrize(("bytes_max", "fits"), [(7, True), (6, False)])
def test_a_note_is_kept_with_the_mark_if_it_fits(bytes_max: int, fits: bool) -> None:
    store = NotingFolder(VirtualDisk(), "/remote")
    segment = replace(remote_segment(1, 0, 9), custom_metadata=b"clean-to=5")
    finishing = Finishing(store, segment, bytes_max)
    if fits:
        finishing()
    else:
        with pytest.raises(
            CustomMetadataSizeLimitExceededError, match=r"7 bytes .*custom\.metadata\.max\.bytes, 6"
        ):
            finishing()
    # One that is too large is still told to the store when what was copied is deleted.
    assert finishing.finished.custom_metadata == b"clean-to=5;shelf 7"
    assert store_of(store, finishing.finished) is not store
    assert store_of(store, segment) is store
