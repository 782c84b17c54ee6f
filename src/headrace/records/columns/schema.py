"""The columns, and the door to pyarrow, an optional extra, and to the compiled kernels that fill its columns.

Both are loaded when columns are first used and not before: no broker needs either. The columns are those of
Spark's Kafka source. `headers` is a list, empty where a record has none.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
TIMESTAMP_SCALES: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def arrow() -> Any:
    """The pyarrow module; an ImportError that says what to install where it is missing."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "Arrow columns need pyarrow, which is not installed: pip install 'headrace[arrow]'",
            name="pyarrow",
        ) from None
    return pyarrow


_loaded: ModuleType | None = None


def column_kernels() -> ModuleType:
    """The compiled kernels; the first call loads them, or compiles them where no cache has them."""
    global _loaded
    if _loaded is None:
        from headrace.records.kernels import columns

        _loaded = columns
    return _loaded


def loaded_column_kernels() -> ModuleType | None:
    """The same for who can do without: None until somebody has loaded them."""
    return _loaded


def bytes_of(array: Any, size: int) -> Any:
    """The first `size` bytes of a numpy array as an Arrow buffer that keeps it alive."""
    return arrow().py_buffer(array).slice(0, size)


def column_schema(
    columns: Sequence[str] | None = None, *, timestamp_unit: str = "ms", plain_topic: bool = False
) -> Any:
    """The pyarrow.Schema of what is read; ValueError for a column or unit that does not exist."""
    pa = arrow()
    if timestamp_unit not in TIMESTAMP_SCALES:
        raise ValueError(f"timestamps can be in {', '.join(TIMESTAMP_SCALES)}, not in {timestamp_unit!r}")
    kinds = {
        "topic": pa.string() if plain_topic else pa.dictionary(pa.int32(), pa.string()),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp(timestamp_unit, tz="UTC"),
        "timestamp_type": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    unknown = [name for name in columns or () if name not in kinds]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    return pa.schema([(name, kinds[name]) for name in (COLUMNS if columns is None else columns)])
