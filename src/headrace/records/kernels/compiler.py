"""Makes machine code of kernels: the one place that hands them to numba.

A module of kernels is compiled as a whole, in the order of its functions. Each gets a twin with the same
code, in whose globals the functions with two forms are those of `machine`, constants annotated as `Word` are
unsigned, and other kernels are the compiled ones. The annotations are the signature, so that importing either
loads what numba's cache has or compiles it once. The cache lies in this package's `__pycache__`, or where
that cannot be written in the user's cache folder (NUMBA_CACHE_DIR overrides both). All release the GIL.

Compiled kernels take arrays. `face` makes the function that takes bytes and memoryviews, as the plain one
does: as straight-line Python, since wrapping a buffer and entering compiled code cost half a microsecond
together. That is less than plain Python takes for a record, so compiled kernels serve batches of every size.
"""

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Final, TypeVar, cast, get_args, get_type_hints

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock

from headrace.base.chunks import Buffer
from headrace.records.kernels import machine, notation, produce
from headrace.records.kernels.notation import KERNELS, Bytes, Cells, Ints, Numbers, Room, Rows, Word, Words
from headrace.records.kernels.produce import NO_RUN, ROWS_MAX, RUN_FIELDS, RunHead, RunRow

types: Any = numba.types
_F = TypeVar("_F", bound=Callable[..., Any])

_TYPES: Final = {
    int: types.int64,
    bool: types.boolean,
    type(None): types.void,
    Word: types.uint64,
    Bytes: types.Array(types.uint8, 1, "C", readonly=True),
    Room: types.Array(types.uint8, 1, "C"),
    Numbers: types.Array(types.int64, 1, "C", readonly=True),
    Cells: types.Array(types.int64, 1, "C"),
    Ints: types.Array(types.int32, 1, "C"),
    Words: types.Array(types.uint64, 1, "C"),
    Rows: types.Array(types.int64, 2, "C"),
}
_ARRAYS: Final = {
    Word: "uint64({})",
    Bytes: "frombuffer({}, uint8)",
    Room: "frombuffer({}, uint8)",
    Numbers: "asarray({})",
    Cells: "asarray({})",
    Ints: "asarray({})",
    Words: "frombuffer({}, uint64)",
    Rows: "asarray({})",
}
_ARRAY_NAMES: Final = {
    "frombuffer": np.frombuffer,
    "asarray": np.asarray,
    "uint8": np.uint8,
    "uint64": np.uint64,
}
_TWO_FORMS: Final[dict[Any, Any]] = {getattr(notation, name): form for name, form in machine.FORMS.items()}
_compiled: Final[dict[Any, Any]] = {}


def compiled(function: _F) -> _F:
    """The compiled form of a kernel, for arrays."""
    with global_compiler_lock:  # several threads may compact
        if function not in _compiled:
            _compile_module(sys.modules[function.__module__])
    return cast(_F, _compiled[function])


def face(function: _F) -> _F:
    """The compiled form of a kernel, for what the plain one takes."""
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return")
    given = ", ".join(_ARRAYS.get(hint, "{}").format(name) for name, hint in hints.items())
    scope = {"compiled": compiled(function), **_ARRAY_NAMES}
    name = function.__name__
    exec(f"def {name}({', '.join(hints)}):\n    return compiled({given})", scope)
    return cast(_F, scope[name])


def compiled_run() -> Callable[[Buffer, int, int], tuple[RunHead, list[RunRow]]]:
    """`produce.produce_run` with the compiled kernel, whose rows are an array."""
    fill = compiled(produce.fill_run)
    frombuffer, empty, uint8, int64 = np.frombuffer, np.empty, np.uint8, np.int64

    def produce_run(data: Buffer, at: int, end: int) -> tuple[RunHead, list[RunRow]]:
        rows: Any = empty((ROWS_MAX, RUN_FIELDS), int64)
        received: Any = frombuffer(data, uint8)
        head = fill(received, at, end, rows)
        count = head[0]
        if not count:
            return NO_RUN, []
        return RunHead._make(head), rows[:count].tolist()

    return produce_run


def _compile_module(module: ModuleType) -> None:
    own = [each for each in KERNELS if each.__module__ == module.__name__]
    words = [name for name, hint in module.__annotations__.items() if hint is Word]
    scope = {name: _form(value, own) for name, value in vars(module).items()}
    scope |= {name: np.uint64(scope[name]) for name in words}
    for function in own:
        source = cast(FunctionType, function)
        twin = FunctionType(source.__code__, scope, source.__name__)
        twin.__module__ = source.__module__
        if KERNELS[function]:
            made: Any = machine.kernel(_signature(source))(twin)
        else:
            made = machine.part(twin)
        scope[source.__name__] = _compiled[function] = made


def _form(value: Any, own: list[Any]) -> Any:
    if not isinstance(value, FunctionType) or value in own:
        return value
    if value is notation.crc32c:
        from headrace.records.kernels.crc import crc32c  # tables that most processes need not fill

        return crc32c
    if value in _TWO_FORMS:
        return _TWO_FORMS[value]
    return compiled(value) if value in KERNELS else value


def _signature(function: FunctionType) -> Any:
    hints = get_type_hints(function, include_extras=True)
    answer = hints.pop("return")
    return _answer_type(answer)(*(_TYPES[hint] for hint in hints.values()))


def _answer_type(hint: Any) -> Any:
    if hint in _TYPES:
        return _TYPES[hint]
    parts = get_args(hint)
    assert len(set(parts)) == 1, f"a kernel answers numbers of one kind, not {hint}"
    return types.UniTuple(_TYPES[parts[0]], len(parts))
