"""What has come out of the pipeline: the derived feeds, read with our own consumer, and the table.

The Parquet table is read as any other program would, with pyarrow. Spark's file sink lists the files of each
batch in `_spark_metadata` once the batch is done. A file that is not listed belongs to a batch that failed
and ran again; a reader that counts it counts its rows twice.
"""

import json
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlparse

from headrace.clients import ConsumerRecord
from headrace.spark.demo.feeds import ERRORS, JOINED

if TYPE_CHECKING:
    import pyarrow

_LAST_SHOWN: Final = 6


@dataclass(slots=True)
class Outcome:
    """`take` is given every record of the derived feeds."""

    # (service, start of the minute in ms) -> every count that was written for it
    errors: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    # number -> how often it came, and how it looked last
    sessions: Counter[int] = field(default_factory=Counter)
    joined: dict[int, dict[str, Any]] = field(default_factory=dict)
    # Records that are not what the pipeline writes.
    strange: Counter[str] = field(default_factory=Counter)
    # Records by feed. Offsets would count a transaction's marker too, and what was aborted.
    taken: Counter[str] = field(default_factory=Counter)
    latest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_LAST_SHOWN))

    def take(self, record: ConsumerRecord) -> None:
        self.taken[record.topic] += 1
        try:
            value = json.loads(record.value or b"")
            if record.topic == ERRORS:
                key = (value["service"], value["minute_ms"])
                self.errors.setdefault(key, []).append(value["errors"])
            elif record.topic == JOINED:
                self.sessions[value["session"]] += 1
                self.joined[value["session"]] = value
                self.latest.append(value)
        except (ValueError, LookupError, TypeError):
            self.strange[record.topic] += 1

    def last_minute(self) -> tuple[int | None, dict[str, int]]:
        """The last minute that was closed, and the errors in it by service."""
        minute = max((at for _, at in self.errors), default=None)
        return minute, {name: found[-1] for (name, at), found in self.errors.items() if at == minute}


def committed_files(folder: Path) -> list[Path]:
    """The files of all finished batches."""
    listed: dict[Path, None] = {}
    for entry in _entries(folder / "_spark_metadata"):
        # The first line is the format's version.
        for line in entry.read_text().splitlines()[1:]:
            if line:
                listed[Path(unquote(urlparse(json.loads(line)["path"]).path))] = None
    return list(listed)


def table_column(folder: Path, name: str) -> "pyarrow.ChunkedArray":
    """One column of all committed rows."""
    import pyarrow
    from pyarrow import dataset

    files = [str(path) for path in committed_files(folder)]
    if not files:
        return pyarrow.chunked_array([], type=pyarrow.int64())
    return dataset.dataset(files, format="parquet").to_table(columns=[name]).column(name)


def _entries(folder: Path) -> list[Path]:
    """Every tenth entry repeats those before it, so the last of these and what follows is all."""
    named = [path for path in folder.glob("*") if path.name.removesuffix(".compact").isdecimal()]
    by_batch = sorted(named, key=lambda path: int(path.name.removesuffix(".compact")))
    compact = [at for at, path in enumerate(by_batch) if path.suffix == ".compact"]
    return by_batch[compact[-1] :] if compact else by_batch
