"""Values from elsewhere: looked up as by Kafka's providers, refused where they lead nowhere, never shown."""

from pathlib import Path

import pytest

from headrace.node.announcements import HIDDEN, different_settings
from headrace.node.config import load, read_properties_file
from headrace.node.config_providers import look_up
from headrace.settings.definition import SettingError
from headrace.settings.describe import describe_broker

KAFKAS = "org.apache.kafka.common.config.provider"
CLASSES = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{KAFKAS}.FileConfigProvider",
    "config.providers.dir.class": f"{KAFKAS}.DirectoryConfigProvider",
    "config.providers.env.class": f"{KAFKAS}.EnvVarConfigProvider",
}


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of properties and a file of its own for each secret."""
    (tmp_path / "secrets.properties").write_text("password = s3cret\npartitions=7\ncolon=a:b\n")
    (tmp_path / "rack").write_text("zone-a")
    monkeypatch.setenv("NODE_ID", "12")
    return tmp_path


def looked_up(text: str, **more: str) -> str:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    return look_up(CLASSES | settings | {"x": text}).values["x"]


def test_a_reference_is_replaced_by_what_it_leads_to(secrets: Path) -> None:
    file = secrets / "secrets.properties"
    assert looked_up(f"${{file:{file}:password}}") == "s3cret"
    assert looked_up(f"a ${{file:{file}:password}}, ${{env:NODE_ID}}") == "a s3cret, 12"
    assert looked_up(f"${{dir:{secrets}:rack}}") == "zone-a"
    assert looked_up(f"${{file:{file}:colon}}") == "a:b"
    assert looked_up("${vault:a:b} $x ${y}") == "${vault:a:b} $x ${y}", "nobody's"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${file:DIR/secrets.properties:user}", "the file does not have this key"),
        ("${file:DIR/none:user}", "the file cannot be read: No such file"),
        ("${file:password}", "no path is given"),
        ("${dir:DIR:none}", "the file cannot be read: No such file"),
        ("${dir:DIR:../rack}", "the key must be the name of a file"),
        ("${env:HEADRACE_NOT_SET}", "the variable is not set"),
        ("${env:a:NODE_ID}", "have no path"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(secrets: Path, reference: str, reason: str) -> None:
    with pytest.raises(SettingError, match=reason) as caught:
        looked_up(reference.replace("DIR", str(secrets)))
    assert caught.value.setting == "x"


def test_only_what_is_allowed_is_read(secrets: Path) -> None:
    """CVE-2024-31141."""
    (secrets / "allowed").mkdir()
    allowed = {"config.providers.dir.param.allowed.paths": f"{secrets}/allowed"}
    settings = CLASSES | allowed | {"x": f"${{dir:{secrets}/allowed/..:rack}}"}
    with pytest.raises(SettingError, match=r"allowed\.paths does not allow this path"):
        look_up(settings)
    (secrets / "allowed/rack").write_text("b")
    assert look_up(settings | {"x": f"${{dir:{secrets}/allowed:rack}}"}).values["x"] == "b"
    pattern = {"config.providers.env.param.allowlist.pattern": "KAFKA_.*", "x": "${env:NODE_ID}"}
    with pytest.raises(SettingError, match="does not allow this variable"):
        look_up(CLASSES | pattern)


def test_providers_that_nobody_has_are_refused() -> None:
    with pytest.raises(SettingError, match="there is no provider") as caught:
        look_up({"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"})
    assert caught.value.setting == "config.providers.vault.class"


def test_a_node_starts_with_them_and_tells_no_secret(secrets: Path) -> None:
    """CVE-2019-12399."""
    file = secrets / "server.properties"
    lines = CLASSES | {
        "broker.id": "${env:NODE_ID}",
        "broker.rack": f"${{dir:{secrets}:rack}}",
        "num.partitions": f"${{file:{secrets}/secrets.properties:partitions}}",
        "ssl.key.password": f"${{file:{secrets}/secrets.properties:password}}",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    config = load(str(file), port=9099)
    assert (config.node_id, config.str("broker.rack"), config.int("num.partitions")) == (12, "zone-a", 7)
    assert config.str("ssl.key.password") == "s3cret"
    shown = {entry.name: entry.value for entry in describe_broker(config)}
    assert (shown["num.partitions"], shown["ssl.key.password"]) == ("7", None)
    told = dict(different_settings(config))
    assert told["num.partitions"] == told["broker.rack"] == told["ssl.key.password"] == HIDDEN
    assert read_properties_file(str(file))["broker.id"] == "12"
    file.write_text(file.read_text() + f"num.io.threads=${{file:{secrets}/secrets.properties:password}}\n")
    with pytest.raises(SettingError) as caught:
        load(str(file))
    assert str(caught.value).endswith(f"is not allowed ({file}:{len(lines) + 1})")
    assert "s3cret" not in str(caught.value)
