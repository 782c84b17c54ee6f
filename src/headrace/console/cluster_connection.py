"""The clients of one cluster, with one identity: the console's own, or that of a person who has logged in.

A person's requests go over a person's connections, so that the cluster's own ACLs decide what is seen and
changed; the console has no rights to lend.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.clients import AsyncAdmin, AsyncConsumer, AsyncProducer
from headrace.clients.config import TABLES
from headrace.clients.internals.channel_builder import TOKEN_PROVIDER
from headrace.console.cluster_extras import ClusterExtras
from headrace.console.payload_reader import PayloadReader
from headrace.security.sasl.mechanism import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

TIMEOUT_MS: Final = 15_000
CLIENT_ID: Final = "headrace-console"

MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)
"""By which a person can log in with a name and a password."""
_OWN_LOGIN: Final = ("sasl.jaas.config", "sasl.username")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster by the name that URLs have for it, how it is reached, in Kafka's client settings, where its
    brokers and pipelines have their /metrics, and what there is beside it.
    """

    name: str
    settings: Mapping[str, str] = field(repr=False)
    metrics: tuple[str, ...] = ()
    extras: ClusterExtras = field(default_factory=ClusterExtras)
    token: Callable[[], str] | None = field(default=None, repr=False)
    """What gives a person's token, where people log in by OIDC."""

    @property
    def needs_login(self) -> bool:
        """Whether brokers ask who one is, and the settings do not say it."""
        protocol = self.settings.get("security.protocol", "").upper()
        if self.mechanism == OAUTHBEARER:
            is_told = self.extras.oidc is None or self.token is not None
        else:
            is_told = any(name in self.settings for name in _OWN_LOGIN)
        return protocol.startswith("SASL_") and not is_told

    @property
    def mechanism(self) -> str:
        return self.settings.get("sasl.mechanism") or self.settings.get("sasl.mechanisms", "")

    @property
    def why_no_login(self) -> str:
        """Why nobody could log in with these settings; empty where one can."""
        if self.extras.oidc is not None and not (self.needs_login and self.mechanism == OAUTHBEARER):
            return (
                "oidc.* needs security.protocol=SASL_SSL (or SASL_PLAINTEXT) and sasl.mechanism=OAUTHBEARER"
            )
        if not self.needs_login or self.mechanism in (*MECHANISMS, OAUTHBEARER):
            return ""
        return f"set sasl.mechanism to one of {', '.join(MECHANISMS)}, so that visitors can log in"

    def of_user(self, user: str, password: str) -> "ClusterSpec":
        """The same cluster, reached as this user."""
        settings = {**self.settings, "sasl.username": user, "sasl.password": password}
        return dataclasses.replace(self, settings=settings)

    def of_token(self, token: Callable[[], str]) -> "ClusterSpec":
        """The same cluster, reached as whoever has this token."""
        return dataclasses.replace(self, token=token)


class ClusterConnection:
    """An administrator, a producer when one is needed, and consumers that are asked for one by one."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.admin = AsyncAdmin(self._settings("admin", {"default.api.timeout.ms": TIMEOUT_MS}))
        self._producer: AsyncProducer | None = None
        self.registry = spec.extras.registry_of(spec.settings, spec.token)
        self.payloads = PayloadReader(self.registry)

    def _settings(self, kind: str, more: Mapping[str, Any]) -> dict[str, Any]:
        table = TABLES[kind]
        known = {name: value for name, value in self.spec.settings.items() if name in table}
        own = {"client.id": CLIENT_ID, "request.timeout.ms": TIMEOUT_MS}
        by_token = {} if self.spec.token is None else {TOKEN_PROVIDER: self.spec.token}
        return {**own, **known, **more, **by_token}

    def consumer(self, **more: Any) -> AsyncConsumer:
        """One that reads partitions that it is given, and commits nothing."""
        fixed = {
            "default.api.timeout.ms": TIMEOUT_MS,
            "allow.auto.create.topics": False,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "group.id": None,
            # A page shows some hundred records: little is fetched ahead.
            "fetch.max.bytes": 8 << 20,
        }
        named = {name.replace("_", "."): value for name, value in more.items()}
        return AsyncConsumer(self._settings("consumer", {**fixed, **named}))

    def producer(self) -> AsyncProducer:
        """The one that writes what people type."""
        if self._producer is None:
            patience = {"max.block.ms": TIMEOUT_MS, "delivery.timeout.ms": 2 * TIMEOUT_MS, "linger.ms": 0}
            fixed = {**patience, "allow.auto.create.topics": False, "transactional.id": None}
            self._producer = AsyncProducer(self._settings("producer", fixed))
        return self._producer

    async def close(self) -> None:
        self.admin.close()
        if self._producer is not None:
            await asyncio.shield(self._producer.close(timeout_ms=1_000))
