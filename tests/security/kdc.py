"""Debian's Kerberos: a KDC on the loopback, for a realm that is made for a test.

The programs are the system's, or its packages unpacked beside it: no service is installed or started. Keys
are made by `kadmin.local`, which writes the KDC's files itself. Whoever is to use the realm needs
`environment`.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.transport.system_network import free_ports
from tests.compat.prepare import kerberos

REALM = "HEADRACE.TEST"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
ANSWERS_WITHIN_S = 120.0

KRB5_CONF = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
KDC_CONF = """[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
[dbmodules]
 {modules}
"""


class Kdc:
    """A realm, and the programs that serve it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path, more = kerberos()
        (self.port,) = free_ports(1)
        # Unpacked beside the system it does not find its own plugins.
        found = [*Path(self._path).parent.glob("lib/*/krb5/plugins/kdb")] if more else []
        modules = f"db_module_dir = {found[0]}" if found else ""
        words = {"realm": REALM, "port": str(self.port), "folder": str(folder), "modules": modules}
        (folder / "krb5.conf").write_text(KRB5_CONF.format(**words))
        (folder / "kdc.conf").write_text(KDC_CONF.format(**words))
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/tickets",
            "KRB5RCACHEDIR": str(folder),
        }
        self._programs = {**os.environ, **self.environment, **more}
        self._process: subprocess.Popen[bytes] | None = None
        self._run("kdb5_util", "create", "-s", "-P", "master")

    def start(self) -> None:
        self._process = subprocess.Popen([self._program("krb5kdc"), "-n"], env=self._programs)
        until = time.monotonic() + ANSWERS_WITHIN_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                assert self._process.poll() is None, "the KDC does not start"
                assert time.monotonic() < until, "the KDC does not answer"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def keytab(self, principal: str, name: str = "") -> Path:
        """A file with new keys of a principal, who is made where there is none."""
        path = self.folder / f"{name or principal.replace('/', '.')}.keytab"
        self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        path.chmod(0o600)
        return path

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._program(program), *arguments], env=self._programs, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _program(self, name: str) -> str:
        found = shutil.which(name, path=self._path)
        assert found is not None, f"{name} is not in {self._path}"
        return found


@contextmanager
def realm_of_this_process(folder: Path) -> Iterator[Kdc]:
    """A KDC, in whose realm this process is meanwhile; UnavailableError where there is none to be had."""
    kdc = Kdc(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        kdc.start()
        try:
            yield kdc
        finally:
            kdc.stop()


def jaas(keytab: Path, principal: str) -> str:
    """The line of who has these keys."""
    return f'{KRB5} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}";'
