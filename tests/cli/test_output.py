"""Tables on a terminal: whatever its width, no name is cut."""

import pytest

from headrace.cli import output
from headrace.cli.output import print_table

COLUMNS = ("TOPIC", "PARTITION", "LAG", "MEMBER", "HOST")
ROW = ("orders", 3, None, "consumer-billing-1-0b6a6a3e-3a0b-4b4e-9a36-1f3d2f1f0f60", "10.1.2.3")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(output, "is_terminal", lambda: True)

    def show(width: int, *rows: tuple[object, ...], optional: tuple[str, ...] = ()) -> tuple[list[str], str]:
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(COLUMNS, rows, absent="-", optional=optional)
        told = capsys.readouterr()
        return [line.rstrip() for line in told.out.splitlines() if line.strip()], told.err

    return show


def test_a_table_that_fits(shown) -> None:  # type: ignore[no-untyped-def]
    lines, said = shown(120, ROW)
    assert lines[0].split() == list(COLUMNS)
    assert lines[-1].split() == ["orders", "3", "-", ROW[3], ROW[4]]
    assert said == ""


def test_a_table_that_fits_without_what_matters_less(shown) -> None:  # type: ignore[no-untyped-def]
    lines, said = shown(70, ROW, optional=("HOST", "MEMBER"))
    assert lines[-1].split() == ["orders", "3", "-"]
    assert said == "left out for want of room: HOST, MEMBER; --json has all\n"
    assert max(map(len, lines)) <= 70


def test_a_row_that_never_fits_is_a_block(shown) -> None:  # type: ignore[no-untyped-def]
    name = "a" * 200
    lines, _ = shown(80, ROW, (name, *ROW[1:]))
    assert len(lines) == 2 * len(COLUMNS)
    assert lines[0].split() == ["TOPIC", "orders"]
    assert lines[5].split() == ["TOPIC", name]


@pytest.mark.parametrize("width", range(40, 140, 7))
def test_no_width_cuts_a_name(shown, width: int) -> None:  # type: ignore[no-untyped-def]
    lines, _ = shown(width, ROW)
    for cell in (ROW[0], ROW[3], ROW[4]):
        assert any(cell in line for line in lines)
