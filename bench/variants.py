"""headrace with something more turned on, to see what that costs: an authorizer with 10,000 ACLs, or metrics
that are read all the time.

They are measured in turn with the plain one, in the same rounds: `python -m bench --brokers headrace
headrace-acls headrace-metrics`.
"""

import threading
import urllib.request
from typing import Final

from bench.brokers import Headrace
from headrace.clients import AclBinding, Admin
from headrace.transport.system_network import free_ports

ACLS: Final = 10_000
AT_ONCE: Final = 1000
SCRAPE_S: Final = 5.0
"""More often than a Prometheus asks by default, which is every 15 s or every minute."""
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class WithAcls(Headrace):
    """The bench's own client is nobody special: what it may do is in three of the rules."""

    name = "headrace-acls"

    def __init__(self) -> None:
        self.settings = Headrace.settings | {"authorizer.class.name": AUTHORIZER}  # type: ignore[misc]
        self._has_acls = False
        super().__init__()

    def start(self) -> None:
        if not self._has_acls:
            self._make_acls()
        super().start()

    def _make_acls(self) -> None:
        self.settings["super.users"] = "User:ANONYMOUS"
        super().start()
        with Admin(bootstrap_servers=self.address) as admin:
            rules = _rules()
            for at in range(0, len(rules), AT_ONCE):
                admin.create_acls(rules[at : at + AT_ONCE])
        self.stop()
        del self.settings["super.users"]
        self._has_acls = True


def _rules() -> list[AclBinding]:
    """As a company has them: applications with topics and groups of their own, some by prefix."""
    own = [
        AclBinding("User:ANONYMOUS", "all", kind, name)
        for kind, name in (("topic", "*"), ("group", "*"), ("cluster", "kafka-cluster"))
    ]
    rules = []
    for number in range((ACLS - len(own)) // 4 + 1):
        user, name = f"User:app-{number}", f"team-{number % 100}.feed-{number}"
        rules += [
            AclBinding(user, "write", "topic", name),
            AclBinding(user, "read", "topic", name),
            AclBinding(user, "describe", "topic", f"load-{number}", "prefixed"),
            AclBinding(user, "read", "group", name, "prefixed"),
        ]
    return own + rules[: ACLS - len(own)]


class WithMetrics(Headrace):
    """Its metrics are read every few seconds."""

    name = "headrace-metrics"

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self._listener = f"HTTP://127.0.0.1:{port}"
        self.settings = Headrace.settings | {"headrace.metrics.listener": self._listener}  # type: ignore[misc]
        self._is_over = threading.Event()
        self._scraper: threading.Thread | None = None
        super().__init__()

    def start(self) -> None:
        super().start()
        self._is_over.clear()
        self._scraper = threading.Thread(target=self._scrape, daemon=True)
        self._scraper.start()

    def _scrape(self) -> None:
        while not self._is_over.wait(SCRAPE_S):
            with urllib.request.urlopen(f"{self._listener}/metrics", timeout=30) as reply:
                reply.read()

    def stop(self, grace_s: float = 30) -> None:
        if self._scraper is not None:
            self._is_over.set()
            self._scraper.join()
            self._scraper = None
        super().stop(grace_s)
