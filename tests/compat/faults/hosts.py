"""Hosts on one machine: a network namespace for each node and one for the clients, joined by a router.

The command runs in the clients' namespace. Every host has a veth pair whose other end is in the router's
namespace, which forwards. To cut A off from B, the router gets a rule that drops silently what comes in
from A for B: nobody is told, as with a cable that is pulled in between, and each direction is a cut of its
own. Namespaces live as long as the processes that hold them, and those as long as this one, because they
read its pipe."""

import os
import subprocess
from collections.abc import Collection, Sequence
from typing import Final

CLIENTS: Final = 0  # the number of the host that the command itself runs on
ENTER: Final = "--inside"
"""The option that tells the command that it is in its namespaces already."""


def are_possible() -> bool:
    """May this user make namespaces here, and does the kernel route in them?"""
    probe = (
        "ip link add probe type veth peer name other && ip rule add iif probe to 10.77.1.2 blackhole"
        " && echo 1 >/proc/sys/net/ipv4/ip_forward && mount -t tmpfs -o size=1m probe /mnt"
    )
    try:
        return not subprocess.run([*_UNSHARE, "sh", "-c", probe], capture_output=True).returncode
    except FileNotFoundError:
        return False


def inside(command: Sequence[str]) -> list[str]:
    """The command in namespaces for network, mounts and processes of its own; all ends with it."""
    return [*_UNSHARE, *command, ENTER]


_UNSHARE: Final = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class Hosts:
    """The clients' host (this process is on it) and those of nodes 1 to `count`."""

    def __init__(self, count: int) -> None:
        self._holders: list[subprocess.Popen[bytes]] = []
        self._router = self._hold()
        self._cut: set[tuple[int, int]] = set()
        _run([*_enter(self._router), "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
        self._namespaces = {number: self._hold() for number in range(1, count + 1)}
        self._join(CLIENTS, ())
        for number, namespace in self._namespaces.items():
            self._join(number, _enter(namespace))

    def address(self, number: int) -> str:
        return f"10.77.{number}.2"

    def entrance(self, number: int) -> list[str]:
        """What a command runs under to be on a node's host."""
        return _enter(self._namespaces[number])

    def cut(self, senders: Collection[int], receivers: Collection[int]) -> None:
        """From now on nothing that the first send reaches the others; the other way is as it was."""
        for sender in senders:
            for receiver in receivers:
                if sender != receiver and (sender, receiver) not in self._cut:
                    self._cut.add((sender, receiver))
                    self._rule("add", sender, receiver)

    def heal(self, senders: Collection[int], receivers: Collection[int]) -> None:
        for sender in senders:
            for receiver in receivers:
                if (sender, receiver) in self._cut:
                    self._cut.remove((sender, receiver))
                    self._rule("del", sender, receiver)

    def close(self) -> None:
        for holder in self._holders:
            assert holder.stdin
            holder.stdin.close()
            holder.wait()

    def _hold(self) -> int:
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert holder.stdout
        holder.stdout.readline()  # it is in its namespace now
        self._holders.append(holder)
        return holder.pid

    def _join(self, number: int, enter: Sequence[str]) -> None:
        """Lay the cable between a host and the router."""
        router = _enter(self._router)
        end, net = f"host{number}", f"10.77.{number}"
        target = str(self._namespaces[number]) if number else str(os.getpid())
        _run([*router, "ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", target])
        _run([*router, "ip", "addr", "add", f"{net}.1/30", "dev", end])
        _run([*router, "ip", "link", "set", end, "up"])
        _run([*enter, "ip", "link", "set", "lo", "up"])
        _run([*enter, "ip", "addr", "add", f"{net}.2/30", "dev", "eth0"])
        _run([*enter, "ip", "link", "set", "eth0", "up"])
        _run([*enter, "ip", "route", "add", "default", "via", f"{net}.1"])

    def _rule(self, change: str, sender: int, receiver: int) -> None:
        rule = ["iif", f"host{sender}", "to", self.address(receiver), "blackhole"]
        _run([*_enter(self._router), "ip", "rule", change, *rule])


def _enter(namespace: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{namespace}/ns/net"]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, f"{' '.join(command)}: {done.stderr}"
