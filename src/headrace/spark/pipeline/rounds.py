"""Which of several files are run when: those without a schedule at once and once, others as theirs says.

A round is run to its end before the next one: a file without a schedule has to end by itself, so one that
runs for ever is refused beside one with a schedule.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.spec import PipelineSpec


class Rounds:
    """The first round has all; later ones those whose time has come."""

    def __init__(self, specs: Sequence[PipelineSpec], now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._specs = list(specs)
        self._next_ms: dict[str, int] = {}
        self._is_first = True
        if any(each.schedule is not None for each in specs):
            for each in specs:
                if not each.trigger.get("availableNow"):
                    raise PipelineError(
                        each.header.path,
                        None,
                        "it runs for ever, and another file has a schedule: run it alone",
                    )

    @property
    def is_over(self) -> bool:
        """There is no schedule: one round is all."""
        return not any(each.schedule is not None for each in self._specs)

    @property
    def is_due(self) -> bool:
        return self._is_first or any(at <= self._now_ms() for at in self._next_ms.values())

    def due(self) -> list[PipelineSpec]:
        """Those to be run now; `done` says when they have been."""
        now_ms = self._now_ms()
        if self._is_first:
            return list(self._specs)
        return [each for each in self._specs if self._next_ms.get(each.name, now_ms + 1) <= now_ms]

    def done(self, specs: Sequence[PipelineSpec]) -> None:
        """A time that has passed while they ran is left out."""
        self._is_first = False
        now_ms = self._now_ms()
        for each in specs:
            if each.schedule is not None:
                self._next_ms[each.name] = each.schedule.next_ms(now_ms)

    def next_text(self) -> str:
        """When the next round begins, for people."""
        at = datetime.fromtimestamp(min(self._next_ms.values()) / 1000, UTC)
        return f"{at:%Y-%m-%d %H:%M:%S} UTC"
