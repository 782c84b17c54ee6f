"""What pyproject.toml asks for is in the lock files, with check sums: set-up installs nothing else."""

import re
import tomllib

import pytest

from tests.house.source import ROOT

PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==\S+(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def _asked(*groups: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["spark"],
    ]
    for group in groups:
        requirements += project["dependency-groups"][group]
    return {_name(requirement) for requirement in requirements}


@pytest.mark.parametrize(
    ("lock", "groups"), [("requirements.lock", ("build",)), ("requirements-dev.lock", ("build", "dev"))]
)
def test_lock_has_all_that_is_asked_for(lock: str, groups: tuple[str, ...]) -> None:
    """`./test --renew-lock` writes it anew."""
    pinned = {name for name, _ in PINNED.findall((ROOT / lock).read_text())}
    assert not _asked(*groups) - pinned


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_every_release_has_check_sums(lock: str) -> None:
    assert not [
        name for name, rest in PINNED.findall((ROOT / lock).read_text()) if "--hash=sha256:" not in rest
    ]


def test_both_locks_agree() -> None:
    run, dev = (
        set(re.findall(r"^\S+==\S+", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert run <= dev
