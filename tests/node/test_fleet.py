"""Settings of several nodes on one machine: what each has for itself."""

from pathlib import Path

import pytest

from headrace.node.fleet import fleet_configs
from headrace.node.machine import METRICS_LISTENER


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("HTTP://127.0.0.1:9404", ["HTTP://127.0.0.1:9404", "HTTP://127.0.0.1:9405"]),
        ("HTTP://[::1]:9404", ["HTTP://[::1]:9404", "HTTP://[::1]:9405"]),
        ("HTTP://127.0.0.1:0", ["HTTP://127.0.0.1:0"] * 2),
        ("", ["", ""]),
    ],
)
def test_listeners_for_metrics_have_ports_that_follow(
    tmp_path: Path, given: str, expected: list[str]
) -> None:
    configs = fleet_configs(2, 9092, str(tmp_path), {METRICS_LISTENER: given} if given else {})
    assert [config.str(METRICS_LISTENER) for config in configs] == expected
