"""A folder of certificates: the authority, `ca.pem` and `ca.key`, and for each node and user NAME.pem with
its key and certificate. `ca.crl` lists those that were revoked; their files are NAME.pem.revoked.

A file is replaced as a whole, so that a running node that looks at it sees the old one or the new one. Those
with keys are readable by their owner alone.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headrace.security.certificates import LEAF_DAYS, Issued, issue, make_ca, renew, revoke

CA: Final = "ca"
CA_NAME: Final = "headrace CA"


class CertificateFolder:
    """The files of one authority."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def ca_file(self) -> Path:
        return self.path / f"{CA}.pem"

    @property
    def crl_file(self) -> Path:
        """The list of revoked certificates: ssl.crl.location."""
        return self.path / f"{CA}.crl"

    def file_of(self, name: str) -> Path:
        """The key and certificate of a node or user."""
        return self.path / f"{name}.pem"

    def ca(self, *, make: bool = False) -> Issued:
        """The authority; with `make` one is made where there is none, without FileNotFoundError is raised."""
        key_file = self.path / f"{CA}.key"
        if not self.ca_file.exists() and make:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = make_ca(CA_NAME, now=datetime.now(UTC))
            write_file(key_file, made.key, secret=True)
            write_file(self.ca_file, made.certificate, secret=False)
        return Issued(self.ca_file.read_bytes(), key_file.read_bytes())

    def issue(self, name: str, hosts: Sequence[str] = (), *, days: int = LEAF_DAYS) -> Path:
        """Make the file of a node, with its hosts, or of a user."""
        issued = issue(self.ca(make=True), name, hosts, now=datetime.now(UTC), days=days)
        write_file(self.file_of(name), issued.chain, secret=True)
        return self.file_of(name)

    def renew(self, name: str, *, days: int = LEAF_DAYS) -> None:
        """Another key and certificate for whom the file is of."""
        old = self.file_of(name).read_bytes()
        renewed = renew(self.ca(), old, now=datetime.now(UTC), days=days)
        write_file(self.file_of(name), renewed.chain, secret=True)

    def revoke(self, name: str) -> None:
        """Put a certificate on the list of those that count no more, and its file out of the way."""
        file = self.file_of(name)
        former = self.crl_file.read_bytes() if self.crl_file.exists() else None
        listed = revoke(self.ca(), file.read_bytes(), former, now=datetime.now(UTC))
        write_file(self.crl_file, listed, secret=False)
        file.replace(file.with_name(f"{file.name}.revoked"))

    def certificates(self) -> Iterator[tuple[str, bytes]]:
        """By the name of the file, the authority first."""
        names = sorted(path.stem for path in self.path.glob("*.pem"))
        for name in sorted(names, key=lambda name: name != CA):
            yield name, self.file_of(name).read_bytes()


def write_file(path: Path, data: bytes, *, secret: bool) -> None:
    """Put a whole file in the place of what was there; a secret one only its owner can read."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o600 if secret else 0o644)) as file:
        file.write(data)
        os.fsync(file.fileno())
    new.replace(path)
