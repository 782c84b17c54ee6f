"""Where log lines go: stderr or a file, by a thread, so that a slow terminal or disk never holds the loop.

Only the entry of a process calls `set_up`; libraries and tests never do. Lines wait in a queue of a limited
length, and what does not fit, or can't be written, is counted and told when there is room again. A place in
the code that says the same again and again is heard a limited number of times in an interval; the rest is a
count. `reopen` is for whoever rotates the file.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from contextlib import suppress
from typing import Final, Literal, TextIO

from headrace.telemetry.log_lines import JsonLines, TextLines, iso_time

LogFormat = Literal["text", "json"]

OWN: Final = "headrace"
QUEUE_LINES_MAX: Final = 10_000
INTERVAL_S: Final = 10.0
LINES_PER_PLACE: Final = 1_000
"""In an interval; far above what a node has to say of itself, and 100 lines a second at worst."""
TRACEBACKS_PER_PLACE: Final = 20
CLOSE_S_MAX: Final = 2.0
"""How long the end of the process waits for lines that are not written yet."""

HELD_LOOK_S: Final = 1.0

LEFT_OUT: Final = "%d more lines like this were left out: %s"
LOST: Final = "%d log lines were lost: they came faster than they could be written, or the disk is full"
NOT_REOPENED: Final = "the log file %s cannot be opened again, the old one is still used: %s"

_Place = tuple[str, str, int]


def set_up(
    *,
    level: str,
    form: LogFormat = "text",
    file: str | None = None,
    node_id: int | None = None,
) -> LogOutput:
    """Send what this process logs to a file, or to stderr; OSError where the file can't be opened."""
    output = LogOutput(file, JsonLines(node_id) if form == "json" else TextLines(node_id))
    logging.root.addHandler(output)
    logging.root.setLevel(level.upper())
    return output


def reopen() -> None:
    """Open the log file again under its name, after it was moved away; nothing for stderr."""
    for handler in logging.root.handlers:
        if isinstance(handler, LogOutput):
            handler.reopen()


class LogOutput(logging.Handler):
    """The handler of a node's process: formats in the thread that logs, writes in its own."""

    def __init__(self, path: str | None, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.addFilter(_is_worth_it)
        self._path = path
        self._stream: TextIO = sys.stderr if path is None else _open(path)
        # None only wakes the thread.
        self._lines: queue.Queue[str | None] = queue.Queue(QUEUE_LINES_MAX)
        self._lost = 0
        # Not the handler's own lock: the end of the process holds that while it waits for the thread.
        self._counting = threading.Lock()
        self._counts: dict[_Place, int] = {}
        self._held: dict[_Place, tuple[logging.LogRecord, int]] = {}
        self._interval_ends = time.monotonic() + INTERVAL_S
        self._reopening = False
        self._closing = False
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def reopen(self) -> None:
        """Have the thread open the file again; what was logged before goes to the old one."""
        self._reopening = True
        self._put(None)

    # --- in the thread that logs ---

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.INFO and self._is_repetition(record):
            return
        self._put(self._line(record))

    def _is_repetition(self, record: logging.LogRecord) -> bool:
        """Whether this place has said enough in this interval."""
        with self._counting:
            if time.monotonic() >= self._interval_ends:
                self._end_interval()
            place = (record.name, record.pathname, record.lineno)
            count = self._counts[place] = self._counts.get(place, 0) + 1
            if count <= (TRACEBACKS_PER_PLACE if record.exc_info else LINES_PER_PLACE):
                return False
            held = self._held.get(place)
            self._held[place] = (record, 1 if held is None else held[1] + 1)
        if held is None:
            self._put(None)  # so that the thread tells the count when the interval is over
        return True

    def _end_interval(self) -> None:
        self._interval_ends = time.monotonic() + INTERVAL_S
        self._counts.clear()
        held, self._held = self._held, {}
        for record, count in held.values():
            self._put(self._line(_like(record, LEFT_OUT, count, record.getMessage())))

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception as error:  # a wrong template must not end what it tells of
            return f"{iso_time(record.created)} ERROR {record.name}: {record.msg!r} cannot be told: {error}"

    def _put(self, line: str | None) -> None:
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._lost += line is not None

    # --- in the thread that writes ---

    def _write_all(self) -> None:
        while not (self._closing and self._lines.empty()):
            try:
                line = self._lines.get(timeout=HELD_LOOK_S if self._held else None)
            except queue.Empty:
                with self._counting:
                    if time.monotonic() >= self._interval_ends:
                        self._end_interval()
                continue
            if line is not None:
                self._write(line)
            elif self._reopening:
                self._open_again()
            if self._lines.empty():
                self._when_idle()
            self._lines.task_done()

    def _write(self, line: str) -> None:
        try:
            self._stream.write(f"{line}\n")
        except (OSError, ValueError):  # a full disk, a terminal that was closed
            self._lost += 1

    def _when_idle(self) -> None:
        lost, self._lost = self._lost, 0
        if lost:
            self._write(self._line(_like(None, LOST, lost)))
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._lost += max(1, lost)
        if self._reopening:
            self._open_again()

    def _open_again(self) -> None:
        self._reopening = False
        if self._path is None:
            return
        try:
            stream = _open(self._path)
        except OSError as error:
            self._write(self._line(_like(None, NOT_REOPENED, self._path, error)))
            return
        old, self._stream = self._stream, stream
        with suppress(OSError):
            old.close()

    # --- at the end of the process ---

    def flush(self) -> None:
        """Wait a moment until all is written that was logged."""
        until = time.monotonic() + CLOSE_S_MAX
        while self._lines.unfinished_tasks and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.002)

    def close(self) -> None:
        if not self._closing:
            with self._counting:
                self._end_interval()
            self._closing = True
            self._put(None)
            # Where nobody reads, lines are lost, and the process ends all the same.
            self._thread.join(CLOSE_S_MAX)
            if self._path is not None and not self._thread.is_alive():
                with suppress(OSError):
                    self._stream.close()
        super().close()


def _like(record: logging.LogRecord | None, text: str, *values: object) -> logging.LogRecord:
    """A record of this module's own, at the place of another."""
    if record is None:
        return logging.LogRecord(__name__, logging.WARNING, "", 0, text, values, None)
    return logging.LogRecord(record.name, record.levelno, "", 0, text, values, None)


def _open(path: str) -> TextIO:
    return open(path, "a", encoding="utf-8", errors="backslashreplace")


def _is_worth_it(record: logging.LogRecord) -> bool:
    """All of ours; of other people's packages, what went wrong."""
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] == OWN
