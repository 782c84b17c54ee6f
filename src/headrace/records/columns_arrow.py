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


def column_kernels() -> ModuleType:
    """The compiled kernels; the first call loads them, or compiles them where no cache has them."""
    from headrace.records import kernels_columns

    return kernels_columns


def bytes_of(array: Any, size: int) -> Any:
    """The first `size` bytes of a numpy array as an Arrow buffer that keeps it alive."""
    return arrow().py_buffer(array).slice(0, size)
