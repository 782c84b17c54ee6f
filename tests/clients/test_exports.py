"""What `headrace` and `headrace.clients` export, and what importing them costs."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
import headrace.clients
from headrace.clients.errors import ClientError
from tests.house.source import ROOT


def imported_for_checkers(path: Path) -> set[str]:
    """The names under `if TYPE_CHECKING` of a module: what editors and mypy know it by."""
    tree = ast.parse(path.read_text())
    (block,) = [each for each in tree.body if isinstance(each, ast.If)]
    imports = [each for each in block.body if isinstance(each, ast.ImportFrom)]
    return {alias.name for each in imports for alias in each.names}


@pytest.mark.parametrize("module", [headrace, headrace.clients])
def test_every_name_is_there_for_programs_and_for_type_checkers(module: object) -> None:
    names = set(module.__all__) - {"__version__"}  # type: ignore[attr-defined]
    assert imported_for_checkers(Path(inspect.getfile(module))) == names  # type: ignore[arg-type]
    assert names <= set(dir(module))
    for name in names:
        assert getattr(module, name).__name__ == name


def test_both_export_the_same() -> None:
    assert set(headrace.__all__) - {"__version__"} == set(headrace.clients.__all__)
    assert headrace.Producer is headrace.clients.Producer


def test_all_errors_of_the_clients_are_exported() -> None:
    from headrace.clients import errors

    kinds = {
        name
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, ClientError) and each.__module__ == errors.__name__
    }
    assert kinds <= set(headrace.__all__)


def test_a_name_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Produzer'"):
        getattr(headrace, "Produzer")  # noqa: B009


def test_the_version_is_that_of_the_package() -> None:
    assert headrace.__version__.count(".") == 2


@pytest.mark.parametrize("module", ["headrace", "headrace.clients"])
def test_importing_the_package_loads_none_of_its_modules(module: str) -> None:
    script = (
        f"import sys, {module}; print(*sorted(each for each in sys.modules if each.startswith('headrace')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"headrace", module}


def test_sync_methods_have_the_signature_and_docstring_of_the_async_ones() -> None:
    for sync, its_async in (
        (headrace.Admin, headrace.AsyncAdmin),
        (headrace.Consumer, headrace.AsyncConsumer),
        (headrace.Producer, headrace.AsyncProducer),
    ):
        for name, method in inspect.getmembers(its_async, inspect.iscoroutinefunction):
            if name.startswith("_"):
                continue
            own = getattr(sync, name)
            assert not inspect.iscoroutinefunction(own), f"{sync.__name__}.{name}"
            assert inspect.signature(own) == inspect.signature(method), f"{sync.__name__}.{name}"
            assert own.__doc__, f"{sync.__name__}.{name}"


def test_a_type_checker_knows_methods_that_are_made_from_async_ones() -> None:
    program = Path(__file__).with_name("typed_use.py")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout
