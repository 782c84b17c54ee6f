"""What a worker keeps between tasks ends; what it has loaded is left alone by its garbage collector."""

import gc
import subprocess
import sys
import types
import weakref
from collections.abc import Iterator

import pytest

from headrace.spark import worker
from headrace.spark.worker import IDLE_MAX, IDLE_S_MAX, WorkerClients, spare_modules


class Node:
    """Garbage that only a collection finds: it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker, "_modules_frozen", 0)
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


class Client:
    """Something that must be closed once."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Clients:
    """`WorkerClients` on a clock of its own, and what it has opened."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.opened: list[Client] = []
        self.pool = WorkerClients(Client.close, lambda: self.now_s)

    def open(self) -> Client:
        self.opened.append(Client())
        return self.opened[-1]

    def task(self, key: str, *, is_last: bool = False) -> Client:
        with self.pool.lent(key, self.open, is_last=is_last) as client:
            assert not client.closed
        return client


def test_a_client_serves_the_next_task_with_its_settings() -> None:
    clients = Clients()
    first = clients.task("a")
    assert clients.task("a") is first
    assert clients.task("b") is not first
    with clients.pool.lent("a", clients.open) as one, clients.pool.lent("a", clients.open) as other:
        assert one is first
        assert other is not one
    assert not any(each.closed for each in clients.opened)


def test_a_client_whose_task_failed_is_closed() -> None:
    clients = Clients()
    with pytest.raises(RuntimeError), clients.pool.lent("a", clients.open) as client:
        raise RuntimeError
    assert client.closed == 1
    assert clients.task("a") is not client


def test_a_few_clients_are_kept_the_longest_unused_goes_first() -> None:
    clients = Clients()
    kept = [clients.task(str(number)) for number in range(IDLE_MAX)]
    assert clients.task("0") is kept[0]
    clients.task("new")
    assert [each.closed for each in kept] == [0, 1, *[0] * (IDLE_MAX - 2)]


def test_a_client_that_nobody_has_used_for_a_minute_is_closed() -> None:
    clients = Clients()
    client = clients.task("a")
    clients.now_s = IDLE_S_MAX
    clients.task("b")
    assert not client.closed
    clients.now_s += 1
    clients.task("b")
    assert client.closed == 1


def test_a_last_use_ends_all_of_its_key() -> None:
    clients = Clients()
    with clients.pool.lent("a", clients.open), clients.pool.lent("a", clients.open):
        other = clients.task("b")
    clients.task("a", is_last=True)
    assert [each.closed for each in clients.opened if each is not other] == [1, 1]
    assert not other.closed


def test_a_fork_opens_its_own_and_leaves_its_parents_alone() -> None:
    """In a process of its own: a fork of one with threads and many libraries may stand still for ever."""
    program = """
import os
from headrace.spark.worker import WorkerClients
closed = []
pool = WorkerClients(closed.append)
def used():
    with pool.lent("a", object) as client:
        return client
client = used()
child = os.fork()
if child == 0:
    is_right = used() is not client
    pool.close()
    os._exit(0 if is_right and client not in closed else 1)
print(os.waitpid(child, 0)[1], used() is client, closed)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "0 True []\n"


def test_what_is_kept_is_closed_when_the_process_exits() -> None:
    program = """
from headrace.spark.worker import WorkerClients
pool = WorkerClients(lambda client: print("closed", client))
with pool.lent("key", lambda: "it"):
    pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "closed it\n"


def test_other_troubles_of_the_daemon_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for trouble in (BrokenPipeError(), ConnectionResetError(), OSError("disk full")):
        try:
            raise trouble
        except OSError as error:
            worker._print_unless_closed(f"failed: {error}", file=sys.stderr)
            worker._HushedTraceback().print_exc()
    said = capsys.readouterr().err.splitlines()
    assert (said[0], said[-1]) == ("failed: disk full", "OSError: disk full")
    assert sum("Traceback" in line for line in said) == 1
