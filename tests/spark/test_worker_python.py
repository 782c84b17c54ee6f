"""Driver and workers of a cluster find a Python each, under one name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.worker_python import (
    chosen_python,
    driver_of_this_python,
    executor_settings,
)

ARCHIVES = {"spark.archives": "models.zip,hdfs://x/env.tar.gz#environment"}


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)


def test_the_setting_comes_before_the_variable_and_that_before_an_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert chosen_python({}) is None
    assert chosen_python({"spark.archives": "models.zip"}) is None
    assert chosen_python(ARCHIVES) == "./environment/bin/python"
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/env/bin/python3")
    assert chosen_python(ARCHIVES) == "/opt/env/bin/python3"
    assert chosen_python({**ARCHIVES, "spark.pyspark.python": "python3.12"}) == "python3.12"


def test_executors_find_the_chosen_one_on_their_path() -> None:
    given = {"a": "b", "spark.pyspark.python": "/opt/env/bin/python3"}
    found = executor_settings(given, "/opt/env/bin/python3")
    assert found["spark.executorEnv.PATH"].startswith("/opt/env/bin:/")
    assert "spark.pyspark.python" not in found
    found = executor_settings({"spark.executorEnv.PATH": "/x"}, "./environment/bin/python")
    assert found == {"spark.executorEnv.PATH": "environment/bin:/x"}
    # Theirs, as it is: what their PATH has is not known here.
    assert executor_settings({"a": "b"}, None) == {"a": "b"}
    assert executor_settings({"a": "b"}, "python3.12") == {"a": "b"}


@pytest.mark.parametrize(("python", "name"), [(None, "python3"), ("./environment/bin/python", "python")])
def test_the_driver_finds_this_one_under_the_same_name(python: str | None, name: str) -> None:
    before = dict(os.environ)
    with driver_of_this_python(python):
        assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == name
        command = [str(shutil.which(name)), "-c", "import sys; print(sys.executable)"]
        assert subprocess.check_output(command, text=True).strip() == sys.executable
        assert Path(command[0]).name == name
    assert dict(os.environ) == before
