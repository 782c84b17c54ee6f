"""`headrace format` as Kafka's storage tool: folders, first voters, levels and users."""

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli.format import format_command
from headrace.log.system_disk import SystemDisk
from headrace.metadata.features import BOOTSTRAP_LEVELS
from headrace.raft.metadata_log import read_bootstrap
from headrace.wire.schemas.metadata_records import FeatureLevelRecord, UserScramCredentialRecord

ID = "MkU3OEVBNTcwNTJENDM2Qg"
SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={servers}
log.dirs={folder}
"""


class Folder:
    """A node's settings and its folder, and the command on them."""

    def __init__(self, path: Path, servers: str = "127.0.0.1:19093") -> None:
        self.data = path / "data"
        self.file = path / "server.properties"
        self.file.write_text(SETTINGS.format(folder=self.data, servers=servers))

    def format(self, *words: str) -> Result:
        return CliRunner().invoke(format_command, ["-c", str(self.file), *words])

    def meta(self) -> str:
        return (self.data / "meta.properties").read_text()

    def records(self) -> list[object]:
        found = read_bootstrap(SystemDisk(), str(self.data))
        assert found is not None
        return found.records

    def levels(self) -> dict[str, int]:
        return {r.name: r.feature_level for r in self.records() if isinstance(r, FeatureLevelRecord)}

    def has_voters(self) -> bool:
        return (self.data / "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint").exists()


def test_what_was_formatted_as_json(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    first = json.loads(folder.format("--cluster-id", ID, "--json").output)
    assert first == {"node": 1, "cluster": ID, "formatted": [str(folder.data)]}
    assert json.loads(folder.format("--json").output) == {**first, "formatted": []}


def test_a_formatted_folder_is_left_alone(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.format("--cluster-id", ID).exit_code == 0
    before = folder.meta()
    for words in ((), ("--cluster-id", ID), ("--ignore-formatted",)):
        result = folder.format(*words)
        assert result.exit_code == 0, result.output
        assert (
            f"left as they are: {folder.data}, formatted already for node 1 of cluster {ID}" in result.output
        )
        assert folder.meta() == before
    other = folder.format("--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert other.exit_code == 1
    assert f"belongs to node 1 of cluster {ID}" in str(other.exception)


def test_a_new_folder_gets_the_cluster_of_the_others(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.format("--cluster-id", ID)
    second = tmp_path / "second"
    result = folder.format("--set", f"log.dirs={folder.data},{second}")
    assert f"formatted {second} for node 1 of cluster {ID}" in result.output
    assert f"cluster.id={ID}" in (second / "meta.properties").read_text()


@pytest.mark.parametrize(
    ("words", "servers", "has_voters"),
    [
        (("--standalone",), "127.0.0.1:19093,127.0.0.1:29093", True),
        (("--no-initial-controllers",), "127.0.0.1:19093", False),
        (("-I", "1@127.0.0.1:19093:D3IzQtVYRY2Jv5bMoKaQiA"), "127.0.0.1:19093", True),
        ((), "127.0.0.1:19093", True),
        ((), "127.0.0.1:29093", False),
    ],
)
def test_who_votes_first(tmp_path: Path, words: tuple[str, ...], servers: str, has_voters: bool) -> None:
    folder = Folder(tmp_path, servers)
    result = folder.format("-t", ID, *words)
    assert result.exit_code == 0, result.output
    assert folder.has_voters() is has_voters


@pytest.mark.parametrize(
    ("words", "levels"),
    [
        ((), BOOTSTRAP_LEVELS),
        (("--release-version", "3.9"), {"metadata.version": 21}),
        (("-r", "4.0-IV0"), {"metadata.version": 22, "group.version": 1}),
        (("-f", "group.version=0"), {k: v for k, v in BOOTSTRAP_LEVELS.items() if k != "group.version"}),
        (("-f", "metadata.version=25", "-f", "transaction.version=1"), None),
    ],
)
def test_levels_to_begin_with(tmp_path: Path, words: tuple[str, ...], levels: dict[str, int] | None) -> None:
    folder = Folder(tmp_path)
    result = folder.format(*words)
    assert result.exit_code == 0, result.output
    wanted = {"metadata.version": 25, "group.version": 1, "transaction.version": 1}
    assert folder.levels() == (wanted if levels is None else levels)


def test_users_to_begin_with(tmp_path: Path) -> None:
    salt = base64.b64encode(b"salt").decode()
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 5000)
    folder = Folder(tmp_path)
    result = folder.format(
        "--add-scram",
        "SCRAM-SHA-256=[name=alice,password=alice-secret]",
        "--add-scram",
        f"SCRAM-SHA-512=[name=bob,iterations=5000,salt={salt},password=secret]",
        "--add-scram",
        f'SCRAM-SHA-512=[name="carol",iterations=5000,salt={salt},saltedpassword={base64.b64encode(salted).decode()}]',
    )
    assert result.exit_code == 0, result.output
    alice, bob, carol = [r for r in folder.records() if isinstance(r, UserScramCredentialRecord)]
    assert (alice.name, alice.mechanism, alice.iterations, len(alice.stored_key)) == ("alice", 1, 4096, 32)
    assert (bob.mechanism, bob.salt, bob.iterations) == (2, b"salt", 5000)
    key = hmac.new(salted, b"Client Key", "sha512").digest()
    assert bob.stored_key == carol.stored_key == hashlib.sha512(key).digest()
    assert bob.server_key == carol.server_key == hmac.new(salted, b"Server Key", "sha512").digest()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--standalone", "--no-initial-controllers"), "contradict each other"),
        (
            ("--standalone", "--set", "controller.quorum.voters=1@127.0.0.1:19093"),
            "controller.quorum.voters is",
        ),
        (("--feature", "metadata.version=33"), "metadata.version 33 is not one of 7 to 32"),
        (("--feature", "no.version=1"), "there is no feature 'no.version'"),
        (("--feature", "group.version=x"), "a level is a number"),
        (("-r", "4.1", "-f", "metadata.version=30"), "give one of the two"),
        (("-r", "2.8"), "'2.8' is no release this one can run"),
        (("-r", "3.9", "-f", "eligible.leader.replicas.version=1"), "needs metadata.version 23"),
        (("-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=b]"), "SCRAM users need metadata.version"),
        (("-S", "SCRAM-SHA-1=[name=a,password=b]"), "is not SCRAM-SHA-256=[name=NAME"),
        (("-S", "SCRAM-SHA-256=[password=b]"), "needs a name"),
        (("-S", "SCRAM-SHA-256=[name=a]"), "either a password or a saltedpassword"),
        (("-S", "SCRAM-SHA-256=[name=a,saltedpassword=YQ==]"), "needs its salt"),
        (("-S", "SCRAM-SHA-256=[name=a,password=b,iterations=1]"), "iterations must be 4096 to 16384"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    folder = Folder(tmp_path)
    result = folder.format(*words)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
    assert not folder.data.exists()
