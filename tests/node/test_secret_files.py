"""Files with passwords and keys that others can read are told, once, with the command that ends that."""

import logging
import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.node.channel_builders import ChannelBuilders
from headrace.node.config import load
from headrace.node.secret_files import ExposedFiles, exposed_file, secret_files_of
from tests.security.certificates import LOCAL, Authority

PASSWORD = "ssl.keystore.password=s3cret\n"
JAAS = 'listener.name.sasl_plaintext.plain.sasl.jaas.config=a.PlainLoginModule required user_a="s3cret";\n'
KRB5 = (
    "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
    'keyTab="DIR/keytab" principal="a";\n'
)
PROVIDER = (
    "config.providers=file,dir\n"
    "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("plain", "secrets.properties", "key", "store.p12", "keytab"):
        (tmp_path / name).write_text("password=s3cret\n")
    return tmp_path


def exposed_by(folder: Path, text: str) -> list[str]:
    """Names of the files that a node with these settings says can be read by others."""
    file = folder / "server.properties"
    file.write_text(text.replace("DIR", str(folder)))
    for each in folder.iterdir():
        each.chmod(0o644)
    found = ExposedFiles().among(secret_files_of(load(str(file))))
    return [Path(each.path).name for each in found]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("log.retention.hours=7\n", []),
        ("ssl.truststore.location=DIR/plain\n", []),
        ("ssl.keystore.password=\n", []),
        (PASSWORD, ["server.properties"]),
        ("delegation.token.secret.key=s3cret\n", ["server.properties"]),
        ("rsm.config.secret.access.key=s3cret\n", ["server.properties"]),
        ("rsm.config.access.key.id=public\n", []),
        ("listener.name.x.ssl.key.password=s3cret\n", ["server.properties"]),
        (JAAS, ["server.properties"]),
        ("ssl.keystore.location=DIR/store.p12\n", ["store.p12"]),
        ("listener.name.x.ssl.keystore.location=DIR/key\n", ["key"]),
        ("rsm.config.kerberos.keytab=DIR/keytab\n", ["keytab"]),
        (f"listener.name.x.gssapi.{KRB5}", ["server.properties", "keytab"]),
        (PROVIDER + "ssl.key.password=${file:DIR/secrets.properties:password}\n", ["secrets.properties"]),
        (PROVIDER + "ssl.key.password=${dir:DIR:plain}\n", ["plain"]),
        (PROVIDER + "broker.rack=${file:DIR/secrets.properties:password}\n", []),
    ],
)
def test_what_holds_secrets_is_said(folder: Path, text: str, names: list[str]) -> None:
    assert exposed_by(folder, text) == names


def test_a_file_is_said_once(folder: Path) -> None:
    path = str(folder / "key")
    Path(path).chmod(0o644)
    exposed = ExposedFiles()
    assert [str(each) for each in exposed.among([path, path])] == [
        f"{path} has secrets, and can be read by others than its owner (mode 0644): chmod 600 {path}"
    ]
    assert not list(exposed.among([path]))
    assert exposed_file(str(folder / "nowhere")) is None


ME, OTHER, MY_GROUP, OTHER_GROUP = 1000, 2000, 100, 200


@pytest.mark.parametrize(
    ("me", "owner", "group", "mode", "advice"),
    [
        (ME, ME, MY_GROUP, 0o600, None),
        (ME, ME, MY_GROUP, 0o640, "chmod 600 f"),
        (ME, ME, MY_GROUP, 0o604, "chmod 600 f"),
        (ME, ME, MY_GROUP, 0o622, None),
        # Root's file for the group of the node.
        (ME, 0, MY_GROUP, 0o640, None),
        (ME, 0, MY_GROUP, 0o644, "chmod o-rwx f"),
        (ME, OTHER, OTHER_GROUP, 0o644, f"chown {ME} f && chmod 600 f"),
        # Root, who may look at files that a node's own user reads.
        (0, 0, 0, 0o640, None),
        (0, 0, 0, 0o644, "chmod 600 f"),
        (0, 0, OTHER_GROUP, 0o644, "chmod o-rwx f"),
        (0, ME, MY_GROUP, 0o640, None),
        (0, ME, MY_GROUP, 0o644, "chmod 600 f"),
    ],
)
def test_who_may_read_it(
    me: int, owner: int, group: int, mode: int, advice: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice never takes the file from the process that reads it."""
    status = SimpleNamespace(st_mode=0o100000 | mode, st_uid=owner, st_gid=group)
    monkeypatch.setattr(os, "stat", lambda path: status)
    monkeypatch.setattr(os, "geteuid", lambda: me)
    monkeypatch.setattr(os, "getegid", lambda: MY_GROUP)
    monkeypatch.setattr(os, "getgroups", lambda: [MY_GROUP])
    found = exposed_file("f")
    monkeypatch.undo()
    assert (None if found is None else found.advice) == advice


def test_doctor_says_it(folder: Path) -> None:
    file = folder / "server.properties"
    file.write_text(f"{PASSWORD}log.dirs={folder / 'data'}\n")
    file.chmod(0o644)
    told = " ".join(CliRunner().invoke(cli, ["doctor", "--config", str(file), "--json"]).output.split())
    assert "can be read by others than its owner (mode 0644)" in told
    assert f"`chmod 600 {file}`" in told
    assert "s3cret" not in told
    file.chmod(0o600)
    assert "can be read" not in CliRunner().invoke(cli, ["doctor", "--config", str(file), "--json"]).output


def test_a_command_says_it(folder: Path) -> None:
    file = folder / "client.properties"
    file.write_text(f"sasl.password=s3cret\nssl.keystore.location={folder / 'key'}\n")
    for each in (file, folder / "key"):
        each.chmod(0o644)
    words = ["topic", "list", "-b", "127.0.0.1:1", "--command-config", str(file), "--help"]
    told = CliRunner().invoke(cli, words).stderr
    for each in (file, folder / "key"):
        assert told.count(f"chmod 600 {each}") == 1, told
    assert "s3cret" not in told


def test_a_start_says_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = folder / "server.properties"
    file.write_text(f"{PASSWORD}log.dirs={folder / 'data'}\n")
    file.chmod(0o644)
    monkeypatch.setattr("headrace.cli.start.set_up", lambda **how: None)
    monkeypatch.setattr("headrace.cli.start.forbid_core_dumps", lambda: None)
    monkeypatch.setattr("headrace.node.lifecycle.run", lambda *what, **how: 0)
    caplog.set_level(logging.WARNING, "headrace")
    assert CliRunner().invoke(cli, ["start", "--config", str(file)]).exit_code == 0
    assert [each for each in caplog.messages if "can be read by others" in each] == [
        f"{file} has secrets, and can be read by others than its owner (mode 0644): chmod 600 {file}"
    ]


def test_a_key_store_is_said_once_also_one_that_a_setting_brings(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    first, second = (authority.sign("node", LOCAL).write(folder / name) for name in ("1.pem", "2.pem"))
    for each in (first, second):
        each.chmod(0o644)
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(first)}
    config = load(overrides={"listeners": "SSL://127.0.0.1:0", **settings}, port=0, data=str(folder / "data"))
    builders = ChannelBuilders(config, read_file=lambda path: Path(path).read_bytes(), rng=random.Random(1))
    builders.of("SSL")
    other = config.with_dynamic(broker={"listener.name.ssl.ssl.keystore.location": str(second)}, default={})
    for each in (config, config, other, other, config):
        builders.follow_settings(each)
    told = [text for text in caplog.messages if "can be read by others" in text]
    assert [text.partition(" ")[0] for text in told] == [str(first), str(second)]
