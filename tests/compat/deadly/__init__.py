"""A broker whose process ends itself at a chosen step of its work on files: `kill -9`, just there.

A step is a rename, a removal or a write of a file whose path matches a pattern. The process is `headrace
start` as users have it; `sitecustomize`, which Python imports by itself at its start, counts the steps
(`steps/`). A rename or removal does not happen at the chosen step; of a write the first half does. `arm` says
which step it shall be while the process runs: so a node starts in peace, and is killed in what is done next.
"""

import json
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.face import eventually

STEPS = Path(__file__).parent / "steps"


class DeadlyBroker(HeadraceBroker):
    """One that can be told at which step to die."""

    def __init__(self, data: Path, settings: dict[str, str]) -> None:
        super().__init__(data, settings)
        self._plan = data.with_suffix(".plan")
        paths = [str(STEPS), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {"PYTHONPATH": os.pathsep.join(paths), "DEADLY_PLAN": str(self._plan)}

    def arm(self, pattern: str, at: int) -> None:
        """It dies at the step of this number, 1 for the first, of those that match: "rename OLD NEW",
        "remove PATH", "write PATH".
        """
        written = self._plan.with_suffix(".new")
        written.write_text(json.dumps({"pattern": pattern, "at": at}))
        written.replace(self._plan)

    def wait_for_death(self) -> None:
        eventually(lambda: self.exit_code is not None, lambda: f"step {self._plan.read_text()}", 60)
        assert self.exit_code == -signal.SIGKILL, self.log_tail()
        self.kill()
        self._plan.unlink()


def kill_at_every(
    steps: Iterable[tuple[str, int]],
    broker: DeadlyBroker,
    *,
    act: Callable[[], None],
    check: Callable[[], None],
) -> None:
    """Have the broker do something once for each step, die there, and be started and checked."""
    for pattern, at in steps:
        broker.arm(pattern, at)
        act()
        broker.wait_for_death()
        broker.start()
        check()
