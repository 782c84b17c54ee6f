"""How a running pipeline looks: a table that is drawn anew on a terminal, a line for each batch elsewhere."""

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import click

from headrace.cli.output import human_bytes, is_terminal, note, print_json_line

if TYPE_CHECKING:
    from headrace.spark.pipeline.reports import BatchReport

_RECENT: Final = 10
_COLUMNS: Final = ("QUERY", "BATCH", "ROWS IN", "ROWS OUT", "LAG", "TIME", "STATE")


class PipelineView(Protocol):
    """Used with `with`, so that a terminal is left as it was."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def started(self, queries: Sequence[str]) -> None: ...

    def batch(self, report: "BatchReport") -> None: ...


def open_view(as_json: bool) -> PipelineView:
    """JSON for scripts, a table for people, lines for logs."""
    if as_json:
        return JsonView()
    return LivePipelineView() if is_terminal() else LineView()


class _Open:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class JsonView(_Open):
    """An object a line: start, every batch; the end is told by the command."""

    def started(self, queries: Sequence[str]) -> None:
        print_json_line({"event": "start", "queries": list(queries)})

    def batch(self, report: "BatchReport") -> None:
        print_json_line(report.as_json())


class LineView(_Open):
    """A line a batch."""

    def started(self, queries: Sequence[str]) -> None:
        note(f"running {', '.join(queries)}; Ctrl-C stops after the batch")

    def batch(self, report: "BatchReport") -> None:
        names = ("batch", "in", "out", "lag", "took", "state")
        cells = zip(names, _cells(report)[1:], strict=True)
        click.echo(f"{report.query}  " + "  ".join(f"{name} {cell}" for name, cell in cells if cell))


class LivePipelineView(_Open):
    """Totals of each query, and the last batches below."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False)
        self._recent: deque[BatchReport] = deque(maxlen=_RECENT)
        self._totals: dict[str, list[int]] = {}

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def started(self, queries: Sequence[str]) -> None:
        self._totals = {name: [0, 0] for name in queries}
        self._draw()

    def batch(self, report: "BatchReport") -> None:
        self._recent.append(report)
        total = self._totals.setdefault(report.query, [0, 0])
        total[0] += report.rows_in
        total[1] += report.rows_out or 0
        self._draw()

    def _draw(self) -> None:
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Any:
        from rich.box import SIMPLE_HEAD
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, header_style="bold cyan", pad_edge=False)
        for name in _COLUMNS:
            table.add_column(name, justify="left" if name == "QUERY" else "right")
        for report in self._recent:
            table.add_row(*_cells(report))
        totals = [
            f"{name}: {rows_in:,} rows in, {rows_out:,} out"
            for name, (rows_in, rows_out) in self._totals.items()
        ]
        waits = "" if self._recent else "waiting for the first batch, which takes some 10 seconds"
        return Group(
            table, Text("\n".join(filter(None, [*totals, waits]))), Text("Ctrl-C stops after the batch")
        )


def _cells(report: "BatchReport") -> list[str]:
    state = f"{report.state_rows:,} rows, {human_bytes(report.state_bytes)}" if report.state_rows else ""
    if report.late_rows:
        state = f"{state} ({report.late_rows:,} late rows dropped)".strip()
    said = [f"{report.bad_rows:,} bad"] if report.bad_rows else []
    said += [f"{report.tombstones:,} tombstones"] if report.tombstones else []
    said += [f"{sum(report.violations.values()):,} not as expected"] if report.violations else []
    return [
        report.query,
        str(report.batch),
        f"{report.rows_in:,}" + (f" ({', '.join(said)})" if said else ""),
        "" if report.rows_out is None else f"{report.rows_out:,}",
        "" if report.lag is None else f"{report.lag:,}",
        f"{report.duration_ms / 1000:.1f} s",
        state,
    ]
