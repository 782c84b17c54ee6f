"""The door to pyarrow, an optional extra, and to the compiled kernels that fill its columns.

Both are loaded when columns are first used and not before: no broker needs either.
"""

from types import ModuleType
from typing import Any


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
        from headrace.records import kernels_columns

        _loaded = kernels_columns
    return _loaded


def loaded_column_kernels() -> ModuleType | None:
    """The same for who can do without: None until somebody has loaded them."""
    return _loaded


def bytes_of(array: Any, size: int) -> Any:
    """The first `size` bytes of a numpy array as an Arrow buffer that keeps it alive."""
    return arrow().py_buffer(array).slice(0, size)
