"""Reads the Parquet table that Spark wrote, as any other program would: with pyarrow.

Spark's file sink lists the files of each batch in `_spark_metadata` once the batch is done. A file that
is not listed belongs to a batch that failed and ran again; whoever counts it counts its rows twice.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

if TYPE_CHECKING:
    import pyarrow


def committed_files(folder: Path) -> list[Path]:
    """The files of all finished batches."""
    listed: dict[Path, None] = {}
    for entry in _entries(folder / "_spark_metadata"):
        # The first line is the format's version.
        for line in entry.read_text().splitlines()[1:]:
            if line:
                listed[Path(unquote(urlparse(json.loads(line)["path"]).path))] = None
    return list(listed)


def column(folder: Path, name: str) -> "pyarrow.ChunkedArray":
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
