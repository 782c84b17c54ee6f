"""Mistakes that others made, each with the test here that would find it: the table is whole, and true.

A row is an advisory, its test file, and the test in it. Each test names the advisory and fails where the
check is taken out of the code.
"""

import ast

import pytest

from tests.house.source import ROOT

ADVISORIES = [
    ("CVE-2017-12610", "tests/security/sasl/test_plain.py"),
    ("CVE-2017-12610", "tests/security/sasl/test_scram.py"),
    ("CVE-2018-1288", "tests/server/test_authorizer.py"),
    ("CVE-2018-17196", "tests/server/test_authorizer.py"),
    ("CVE-2019-12399", "tests/node/test_config_providers.py"),
    ("CVE-2021-38153", "tests/security/sasl/test_plain.py"),
    ("CVE-2021-38153", "tests/security/sasl/test_scram.py"),
    ("CVE-2022-34917", "tests/server/test_sasl_handshake.py"),
    ("CVE-2023-25194", "tests/security/test_jaas.py"),
    ("CVE-2024-27309", "tests/security/test_standard_authorizer.py"),
    ("CVE-2024-31141", "tests/node/test_config_providers.py"),
    ("CVE-2024-31141", "tests/server/test_incremental_alter_configs.py"),
    ("CVE-2024-56128", "tests/security/sasl/test_scram.py"),
    ("CVE-2025-27817", "tests/security/test_oauth_login.py"),
    ("CVE-2025-27818", "tests/security/test_jaas.py"),
    ("CVE-2025-27819", "tests/security/test_jaas.py"),
    ("CVE-2026-10142", "tests/transport/test_client_connection.py"),
    ("CVE-2026-10143", "tests/security/sasl/test_scram.py"),
    ("CVE-2026-33557", "tests/security/sasl/test_oauthbearer.py"),
    ("CVE-2026-41115", "tests/server/test_authorizer.py"),
    ("CVE-2026-83525", "tests/server/test_fetch_snapshot.py"),
    ("CVE-2026-110985", "tests/node/test_oauth_listener.py"),
    ("CVE-2026-111073", "tests/server/test_push_telemetry.py"),
    ("CVE-2026-111108", "tests/wire/test_hostile_bytes.py"),
    ("CVE-2026-111115", "tests/wire/test_hostile_bytes.py"),
]


@pytest.mark.parametrize(("advisory", "file"), ADVISORIES, ids=lambda each: each.rpartition("/")[2])
def test_the_advisory_has_its_test(advisory: str, file: str) -> None:
    text = (ROOT / file).read_text()
    tests = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    named = [each.name for each in tests if advisory in (ast.get_source_segment(text, each) or "")]
    assert named, f"no test of {file} names {advisory}"
