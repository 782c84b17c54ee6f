"""What a new cluster agrees on before its first record: levels of features, and users.

Kafka's StorageTool writes it into `bootstrap.checkpoint`, from where the first active controller takes it
into the log: --release-version and --feature choose the levels, --add-scram makes users who can log in to a
cluster that asks for it from its first minute on.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from headrace.metadata.features import (
    BOOTSTRAP_LEVELS,
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    NEEDS_METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED,
    TRANSACTION_VERSION,
)
from headrace.metadata.image import MetadataRecord
from headrace.security.sasl import scram
from headrace.security.sasl.mechanism import SaslError
from headrace.wire.schemas.metadata_records import FeatureLevelRecord, UserScramCredentialRecord

SINCE: Final = {
    GROUP_VERSION: "4.0-IV0",
    TRANSACTION_VERSION: "4.0-IV2",
    ELR_VERSION: "4.1-IV0",
    SHARE_VERSION: "4.2-IV0",
    STREAMS_VERSION: "4.2-IV1",
}
"""The release from which on a new cluster has a feature at the level of `BOOTSTRAP_LEVELS`."""

SCRAM_SINCE: Final = "3.5-IV2"
SCRAM_ITERATIONS: Final = range(scram.ITERATIONS_MIN, scram.ITERATIONS_MAX + 1)


class BootstrapError(ValueError):
    """What was asked for cannot be; the message says why, and what could."""


def bootstrap_records(
    release_version: str | None = None,
    features: Mapping[str, int] | None = None,
    users: Iterable[UserScramCredentialRecord] = (),
) -> list[MetadataRecord]:
    """The first records of a new cluster, in the order of Kafka's own tool."""
    levels = _levels(release_version, features or {})
    made = list(users)
    if made and levels[METADATA_VERSION] < _level_of(SCRAM_SINCE):
        raise BootstrapError(f"SCRAM users need metadata.version {SCRAM_SINCE}")
    named = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items() if level]
    return [*named, *made]


def _levels(release_version: str | None, features: Mapping[str, int]) -> dict[str, int]:
    if release_version is not None and METADATA_VERSION in features:
        raise BootstrapError("a release says its metadata.version: give one of the two")
    for name, level in features.items():
        _check_level(name, level)
    chosen = BOOTSTRAP_LEVELS[METADATA_VERSION] if release_version is None else _level_of(release_version)
    metadata_version = features.get(METADATA_VERSION, chosen)
    levels = {METADATA_VERSION: metadata_version}
    for name, default in BOOTSTRAP_LEVELS.items():
        if name != METADATA_VERSION:
            levels[name] = default if metadata_version >= _level_of(SINCE[name]) else 0
    levels |= {name: level for name, level in features.items() if name != KRAFT_VERSION}
    for (name, level), needed in NEEDS_METADATA_VERSION.items():
        if levels.get(name, 0) >= level and metadata_version < needed:
            raise BootstrapError(
                f"{name} {level} needs metadata.version {needed}, this is {metadata_version}"
            )
    return levels


def _check_level(name: str, level: int) -> None:
    supported = SUPPORTED.get(name)
    if supported is None:
        raise BootstrapError(f"there is no feature {name!r}: {', '.join(sorted(SUPPORTED))} are known")
    if not supported.min <= level <= supported.max:
        raise BootstrapError(f"{name} {level} is not one of {supported.min} to {supported.max}")


def _level_of(release: str) -> int:
    """The metadata.version of a release, 4.1 or 4.1-IV0; the last one where it has several."""
    found = [
        level
        for level, name in METADATA_VERSION_NAMES.items()
        if name == release or name.startswith(release.removesuffix(".0") + "-")
    ]
    if not found:
        known = list(METADATA_VERSION_NAMES.values())
        raise BootstrapError(f"{release!r} is no release this one can run: {known[0]} to {known[-1]} are")
    return max(found)


def scram_user(text: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """A user by `SCRAM-SHA-256=[name=alice,password=secret]`; in place of the password there may be
    `salt=` and `saltedpassword=` in base 64, beside it `salt=` and `iterations=`."""
    match = re.fullmatch(r"(SCRAM-SHA-\d+)=\[(.*)\]", text.strip())
    if match is None or match[1] not in scram.SCRAM_MECHANISMS:
        raise BootstrapError(
            f"{text.partition('[')[0]!r} is not SCRAM-SHA-256=[name=NAME,password=PASSWORD], or the same of "
            "SCRAM-SHA-512"
        )
    fields = dict(re.findall(r"(name|password|salt|saltedpassword|iterations)=(\"[^\"]*\"|[^,]*)", match[2]))
    fields = {name: value.strip('"') for name, value in fields.items()}
    if not fields.get("name"):
        raise BootstrapError("a SCRAM user needs a name")
    if ("password" in fields) == ("saltedpassword" in fields):
        raise BootstrapError("a SCRAM user needs either a password or a saltedpassword")
    if "saltedpassword" in fields and "salt" not in fields:
        raise BootstrapError("a saltedpassword needs its salt")
    iterations = fields.get("iterations", str(SCRAM_ITERATIONS.start))
    if not iterations.isdecimal() or int(iterations) not in SCRAM_ITERATIONS:
        raise BootstrapError(
            f"iterations must be {SCRAM_ITERATIONS.start} to {SCRAM_ITERATIONS.stop - 1}, not {iterations}"
        )
    mechanism, count = scram.SCRAM_MECHANISMS[match[1]], int(iterations)
    salt = _base64(fields["salt"]) if "salt" in fields else random_bytes(scram.SALT_BYTES)
    try:
        salted = (
            _base64(fields["saltedpassword"])
            if "saltedpassword" in fields
            else scram.salted_password(mechanism.digest, fields["password"], salt, count)
        )
    except SaslError as error:
        raise BootstrapError(str(error)) from None
    stored = scram.credential_of(mechanism.digest, salted, salt, count)
    return UserScramCredentialRecord(
        name=fields["name"],
        mechanism=mechanism.number,
        salt=stored.salt,
        stored_key=stored.stored_key,
        server_key=stored.server_key,
        iterations=stored.iterations,
    )


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise BootstrapError(f"a salt or a salted password is not base 64: {error}") from None
