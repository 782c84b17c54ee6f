"""A group member on a thread of its own, for clients whose consumer is a blocking object.

Such consumers want to be used by one thread: the loop polls, and calls from the test wait in a queue between
polls.
"""

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.compat.clients.face import WAIT_SECONDS, Record


class PolledMember(ABC):
    """Subclasses make the consumer in `__init__` and call `begin` last."""

    def begin(self) -> None:
        self.records: list[Record] = []
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._is_leaving = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @abstractmethod
    def poll(self) -> list[Record]:
        """Waits a short while for records."""

    @abstractmethod
    def partitions(self) -> list[int]: ...

    @abstractmethod
    def commit_now(self) -> None: ...

    @abstractmethod
    def close_now(self) -> None: ...

    def assigned(self) -> list[int]:
        return sorted(self._call(self.partitions))

    def commit(self) -> None:
        self._call(self.commit_now)

    def leave(self) -> None:
        def end() -> None:
            self._is_leaving = True
            self.close_now()

        self._call(end)
        self._thread.join(WAIT_SECONDS)

    def _call(self, function: Callable[[], Any]) -> Any:
        answer: Future[Any] = Future()
        self._calls.put((function, answer))
        return answer.result(WAIT_SECONDS)

    def _run(self) -> None:
        fault: Exception | None = None
        while not self._is_leaving:
            try:
                self.records += self.poll()
            except Exception as error:
                fault = error  # told to the next caller; the test fails there
            while not self._calls.empty():
                function, answer = self._calls.get()
                try:
                    if fault is not None:
                        raise fault
                    answer.set_result(function())
                except Exception as error:
                    self._is_leaving |= fault is not None
                    answer.set_exception(error)
