"""Stores that keep notes with segments (custom metadata), on a whole node in virtual time."""

import pytest

from headrace.testing.machine import Surroundings
from headrace.tiered.remote_storage import RemoteStorageError
from headrace.tiered.segment_metadata import RemoteLogSegmentState
from headrace.tiered.stores.folder import FolderStore
from headrace.wire.schemas.fetch import FetchPartition
from tests.remote_log.test_remote_log_manager import ROOT, TOPIC, TieredWorld
from tests.remote_log.test_remote_reading import bases, fetch


class ShelfStore(FolderStore):
    """Notes how many segments it has seen; what it has is read with the note only."""

    finished = 0
    asked: list[tuple[str, bytes]]
    size = 10

    def finish(self, names: list[str]) -> bytes | None:
        self.finished += 1
        return b"%d" % self.finished + b"." * (self.size - 1)

    def noted(self, note: bytes) -> "NotedShelf":
        return NotedShelf(self, note)

    def read(self, name: str, start: int, end: int) -> bytes:
        raise RemoteStorageError(f"{name} is read without its note")

    def read_into(self, name: str, start: int, buffer: memoryview) -> int:
        raise RemoteStorageError(f"{name} is read without its note")

    def delete(self, names: list[str]) -> None:
        self.asked.append(("delete", b""))
        super().delete(names)


class NotedShelf(FolderStore):
    def __init__(self, shelf: ShelfStore, note: bytes) -> None:
        super().__init__(shelf._disk, shelf._root)
        self._shelf, self._note = shelf, note

    def read_into(self, name: str, start: int, buffer: memoryview) -> int:
        self._shelf.asked.append(("read", self._note))
        return super().read_into(name, start, buffer)

    def delete(self, names: list[str]) -> None:
        self._shelf.asked.append(("delete", self._note))
        super().delete(names)


class ShelfWorld(TieredWorld):
    def _store_on(self, own: Surroundings) -> FolderStore:
        own.disk.make_folder(ROOT)
        self.shelf = ShelfStore(own.disk, ROOT)
        self.shelf.asked = []
        return self.shelf


def test_a_note_is_kept_and_given_back_when_a_segment_is_read_and_deleted() -> None:
    async def script(world: ShelfWorld) -> None:
        await world.start()
        await world.create_topic("t", configs=TOPIC)
        world.write("t", 10)
        await world.copied_to("t", 9)
        notes = [segment.note for segment in world.segments("t")]
        assert notes == [b"1.........", b"2.........", b"3........."]
        await world.until(lambda: world.log("t").local_start_offset >= 9, "only in the store")
        found = await fetch(
            await world.connect(), {"t": FetchPartition(0, fetch_offset=0)}, max_wait_ms=9_000
        )
        assert bases(found["t"])[0] == 0
        assert ("read", notes[0]) in world.shelf.asked
        await world.configure("t", retention_ms="1")
        await world.until(lambda: not world.segments("t"), "all is gone")
        deleted = [note for what, note in world.shelf.asked if what == "delete"]
        # The active segment may have been rolled for its age, and copied, before it went.
        assert sorted(deleted) == [b"%d........." % number for number in range(1, world.shelf.finished + 1)]
        assert not world.objects()
        await world.stop()

    with ShelfWorld() as world:
        world.run(script(world))


def test_a_note_that_is_too_large_ends_copying_and_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(world: ShelfWorld) -> None:
        await world.start()
        world.shelf.size = 129
        await world.create_topic("t", configs=TOPIC)
        world.write("t", 10)
        await world.until(lambda: "nothing more is copied" in caplog.text, "a message")
        await world.pass_time(20_000)
        assert caplog.text.count("nothing more is copied") == 1
        assert world.shelf.finished == 1
        assert world.shelf.asked == [("delete", b"1" + b"." * 128)]
        assert not world.objects()
        assert not world.segments(
            "t", RemoteLogSegmentState.COPY_FINISHED, RemoteLogSegmentState.COPY_STARTED
        )
        assert world.log("t").local_start_offset == 0
        await world.stop()
        await world.start()  # a node that starts anew tries again
        await world.copied_to("t", 9)
        await world.stop()

    with ShelfWorld() as world:
        world.run(script(world))
