"""Mistakes that others made, each with the test here that finds it, and the check in the code which that test
is about.

    python -m tests.security.advisories [CVE-2018-1288 …]

takes each check out of a copy of the code and runs its test, which must fail: a test that passes without the
check would prove nothing."""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.house.source import ROOT

FAILED = 1
"""pytest's exit code where tests were run, and some failed."""


class Advisory(NamedTuple):
    """A mistake, the file of its test, and the check: `written` in `module`, which is gone with `without` in
    its place. Without a module there is no check to take out: what could be wrong is not there at all."""

    name: str
    test: str
    module: str = ""
    written: str = ""
    without: str = ""


_PLAIN = "security/sasl/plain.py"
_SCRAM = "security/sasl/scram_server.py"
_JAAS = ("security/jaas.py", "if module not in LOGIN_MODULES:", "if False:")

ADVISORIES = (
    Advisory(
        "CVE-2017-12610",
        "tests/security/sasl/test_plain.py",
        _PLAIN,
        "if authorization_id and authorization_id != name:",
        "name = authorization_id or name\n        if False:",
    ),
    Advisory(
        "CVE-2017-12610",
        "tests/security/sasl/test_scram.py",
        _SCRAM,
        "if first.authzid and first.authzid != first.name:",
        "if False:",
    ),
    Advisory(
        "CVE-2017-12610",
        "tests/security/sasl/test_gssapi.py",
        "security/sasl/gssapi.py",
        "self._user_of(self._context.peer)",
        'self._user_of(choice[4:].decode(errors="replace") or self._context.peer)',
    ),
    Advisory(
        "CVE-2018-1288",
        "tests/server/test_authorizer.py",
        "server/handlers/fetch.py",
        "if may_act_for_cluster(context):\n        return True\n    tell_denied",
        "if True:\n        return True\n    tell_denied",
    ),
    Advisory(
        "CVE-2018-17196",
        "tests/server/test_authorizer.py",
        "server/authorities.py",
        "    Whole((on_transactional_id(Operation.WRITE, _transactional_id),)),\n",
        "",
    ),
    Advisory(
        "CVE-2019-12399",
        "tests/node/test_config_providers.py",
        "node/announcements.py",
        "if is_secret or name in config.looked_up:",
        "if is_secret:",
    ),
    Advisory(
        "CVE-2021-38153",
        "tests/security/sasl/test_plain.py",
        _PLAIN,
        'hmac.compare_digest((expected or "").encode(), password.encode())',
        "expected == password",
    ),
    Advisory(
        "CVE-2021-38153",
        "tests/security/sasl/test_scram.py",
        _SCRAM,
        "return hmac.compare_digest(found, credential.stored_key)",
        "return found == credential.stored_key",
    ),
    Advisory(
        "CVE-2022-34917",
        "tests/server/test_sasl_handshake.py",
        "server/sasl_server_authenticator.py",
        'if self._requests > REQUESTS_MAX:\n            raise InvalidBytesError(f"it asked',
        'if False:\n            raise InvalidBytesError(f"it asked',
    ),
    Advisory(
        "CVE-2022-34917",
        "tests/server/test_sasl_handshake.py",
        "server/sasl_server_authenticator.py",
        "if api_key not in BEFORE_AUTHENTICATION:",
        "if False:",
    ),
    Advisory(
        "CVE-2022-34917",
        "tests/server/test_sasl_handshake.py",
        "server/sasl_server_authenticator.py",
        ".frame_bytes_max = self._listener.frame_bytes_max\n        self._requests = 0",
        ".frame_bytes_max += 0\n        self._requests = 0",
    ),
    Advisory("CVE-2023-25194", "tests/security/test_jaas.py", *_JAAS),
    Advisory(
        "CVE-2024-27309",
        "tests/security/test_standard_authorizer.py",
        "security/standard_authorizer.py",
        "if not principals:\n            del names[acl.resource_name]",
        "if True:\n            del names[acl.resource_name]",
    ),
    Advisory(
        "CVE-2024-31141",
        "tests/node/test_config_providers.py",
        "node/config_providers.py",
        "if self._roots and not any(",
        "if False and not any(",
    ),
    Advisory("CVE-2024-31141", "tests/server/test_incremental_alter_configs.py"),
    Advisory(
        "CVE-2024-56128",
        "tests/security/sasl/test_scram.py",
        _SCRAM,
        "if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):",
        "if False:",
    ),
    Advisory(
        "CVE-2025-27817",
        "tests/security/test_oauth_login.py",
        "security/system_http.py",
        'raise ValueError("only https addresses are asked, and http ones of this machine")',
        "return",
    ),
    Advisory("CVE-2025-27818", "tests/security/test_jaas.py", *_JAAS),
    Advisory("CVE-2025-27819", "tests/security/test_jaas.py", *_JAAS),
    Advisory(
        "CVE-2026-10142",
        "tests/transport/test_client_connection.py",
        "transport/frame_reader.py",
        "if length <= 0 or length > self.frame_bytes_max:",
        "if length <= 0:",
    ),
    Advisory(
        "CVE-2026-10143",
        "tests/security/sasl/test_scram.py",
        "security/sasl/scram_client.py",
        "if not scram.ITERATIONS_MIN <= server_first.iterations <= CLIENT_ITERATIONS_MAX:",
        "if not scram.ITERATIONS_MIN <= server_first.iterations <= CLIENT_ITERATIONS_MAX + 1:",
    ),
    Advisory(
        "CVE-2026-33557",
        "tests/security/sasl/test_oauthbearer.py",
        "security/sasl/jwt_validator.py",
        "if not self.issuer or not any(self.audiences) or not self.user_claim:",
        "if not self.user_claim:",
    ),
    Advisory(
        "CVE-2026-41115",
        "tests/server/test_authorizer.py",
        "server/api_table.py",
        'Row(ApiKey.DESCRIBE_GROUPS, 0, 6, authority=each_group(Operation.DESCRIBE, "groups"))',
        "Row(ApiKey.DESCRIBE_GROUPS, 0, 6, authority=OPEN)",
    ),
    # An exception in a handler ends no process here, whatever it comes from.
    Advisory("CVE-2026-83525", "tests/server/test_fetch_snapshot.py"),
    Advisory(
        "CVE-2026-110985",
        "tests/node/test_oauth_listener.py",
        "node/sasl_listeners.py",
        "if not value(name):",
        "if False:",
    ),
    Advisory(
        "CVE-2026-111073",
        "tests/server/test_push_telemetry.py",
        "server/client_metrics_manager.py",
        "decompress(codec, packed, limit_bytes=limit_bytes)",
        "decompress(codec, packed, limit_bytes=1 << 30)",
    ),
    Advisory(
        "CVE-2026-111108",
        "tests/wire/test_hostile_bytes.py",
        "wire/reader_source.py",
        'bounds += f" or {count} > {primitives.ELEMENTS_MAX}"',
        'bounds += ""',
    ),
    Advisory(
        "CVE-2026-111115",
        "tests/wire/test_hostile_bytes.py",
        "wire/primitives.py",
        "if count > TAGGED_FIELDS_MAX:",
        "if False:",
    ),
)


def named_tests(advisory: Advisory) -> list[str]:
    """The functions of the test's file that name the advisory."""
    text = (ROOT / advisory.test).read_text()
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and advisory.name in (ast.get_source_segment(text, node) or "")
    ]


def exit_code_without(advisory: Advisory) -> int:
    """pytest's, of the advisory's tests on code without the check."""
    with tempfile.TemporaryDirectory(prefix="advisory-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        module = source / "headrace" / advisory.module
        module.write_text(module.read_text().replace(advisory.written, advisory.without))
        named = [f"{advisory.test}::{name}" for name in named_tests(advisory)]
        options = ["-q", "-x", "-p", "no:cacheprovider", "-o", f"pythonpath={source}"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *named],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(source)},
            capture_output=True,
        ).returncode


def main(names: Sequence[str]) -> int:
    useless = 0
    for advisory in ADVISORIES:
        if (names and advisory.name not in names) or not advisory.module:
            continue
        code = exit_code_without(advisory)
        useless += code != FAILED
        what = "fails without its check" if code == FAILED else f"ENDED WITH {code} WITHOUT ITS CHECK"
        print(f"{advisory.name} {advisory.test}: {what}", flush=True)
    return 1 if useless else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.security.advisories")
    parser.add_argument("names", nargs="*", metavar="CVE", help="these alone")
    sys.exit(main(parser.parse_args().names))
