"""Ports for servers that are started a moment later, while others ask the system for any port."""

import errno
import socket
from pathlib import Path

import pytest

from headrace.node.config import controller_port
from headrace.transport.system_network import free_ports


def test_they_differ_and_a_server_can_have_them() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_no_outgoing_connection_is_lent_one() -> None:
    """Or a server that was killed would find its port taken when it comes back."""
    lent = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(lent.read_text().split()[0]) if lent.exists() else 49152
    assert all(port < first and controller_port(port) < first for port in free_ports(20))


def test_to_others_they_are_taken() -> None:
    """Who asks for any port is given none that who does not insist (SO_REUSEADDR) could not have by name."""
    (port,) = free_ports(1)
    with socket.socket() as other, pytest.raises(OSError, match=r"in use") as refused:
        other.bind(("127.0.0.1", port))
    assert refused.value.errno == errno.EADDRINUSE
