"""What a worker has loaded is left alone by its garbage collector; what a task leaves behind is not."""

import gc
import sys
import types
import weakref
from collections.abc import Iterator

import pytest

from headrace.spark import worker_garbage
from headrace.spark.worker_garbage import spare_modules


class Node:
    """Garbage that only a collection finds: it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_garbage, "_modules_frozen", 0)
    yield
    gc.unfreeze()


def test_modules_are_not_searched() -> None:
    spare_modules()
    assert gc.get_freeze_count() > len(sys.modules)
    assert not any(each is pytest.__dict__ for each in gc.get_objects())


def test_what_comes_after_is_searched_until_more_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    spare_modules()
    frozen = gc.get_freeze_count()
    node = Node()
    spare_modules()
    assert gc.get_freeze_count() <= frozen
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is None
    kept = Node()
    monkeypatch.setitem(sys.modules, "loaded_meanwhile", types.ModuleType("loaded_meanwhile"))
    spare_modules()
    assert not any(each is kept for each in gc.get_objects())
