"""systemd is told that a service is ready, by a datagram to where it says (sd_notify(3))."""

import socket
from pathlib import Path

import pytest

from headrace.transport.system_network import tell_service_manager


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_it_hears_what_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path if kind == "path" else f"\0{path}")
        monkeypatch.setenv("NOTIFY_SOCKET", path if kind == "path" else f"@{path}")
        tell_service_manager("READY=1")
        assert manager.recv(100) == b"READY=1"


def test_where_nobody_listens_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nowhere"))
    tell_service_manager("READY=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    tell_service_manager("READY=1")
