"""What the console knows beside a cluster: its schema registry, who its people log in with, what is hidden.

Settings have the names that clients of Kafka and of registries have for them, where those have one:

    schema.registry.url=https://registry:8081
    schema.registry.basic.auth.user.info=reader:secret
    mask.cards.topics=payments\\..*
    mask.cards.fields=card.number

A registry is asked with the console's own credentials, or (`…credentials.source=SASL_INHERIT`, or for tokens
`SASL_OAUTHBEARER_INHERIT`) with those of whoever has logged in.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.console.masks import PREFIX as MASK
from headrace.console.masks import MaskRule, read_rules
from headrace.console.oidc import NAMES as OIDC
from headrace.console.oidc import OidcSpec, read_oidc
from headrace.schemas.errors import PayloadError
from headrace.schemas.registry import Registry
from headrace.settings.definition import SettingError

REGISTRY: Final = "schema.registry."
URL: Final = f"{REGISTRY}url"
BASIC_SOURCE: Final = f"{REGISTRY}basic.auth.credentials.source"
BASIC_USER: Final = f"{REGISTRY}basic.auth.user.info"
BEARER_SOURCE: Final = f"{REGISTRY}bearer.auth.credentials.source"
BEARER_TOKEN: Final = f"{REGISTRY}bearer.auth.token"
AUTHORITY: Final = f"{REGISTRY}ssl.truststore.location"

INHERITED: Final = {"SASL_INHERIT": False, "SASL_OAUTHBEARER_INHERIT": True}
"""Sources that mean whoever has logged in, and whether that is by a token."""
_OWN: Final = {BASIC_SOURCE: ("USER_INFO", "URL"), BEARER_SOURCE: ("STATIC_TOKEN",)}

NAMES: Final = OIDC | {URL, BASIC_SOURCE, BASIC_USER, BEARER_SOURCE, BEARER_TOKEN, AUTHORITY}

ATTEMPTS: Final = 2
"""People wait for the answer."""


@dataclass(frozen=True, slots=True)
class ClusterExtras:
    """See above. `inherits` is the source of the registry's credentials where they are people's own."""

    registry: Registry | None = None
    inherits: str = ""
    masks: tuple[MaskRule, ...] = ()
    oidc: OidcSpec | None = None

    def registry_of(
        self, settings: Mapping[str, str], token: Callable[[], str] | None = None
    ) -> Registry | None:
        """The registry as somebody with these settings of a client, or this token, asks it."""
        if self.registry is None or not self.inherits:
            return self.registry
        if INHERITED[self.inherits]:
            return dataclasses.replace(self.registry, bearer=token)
        user, password = settings.get("sasl.username"), settings.get("sasl.password")
        return dataclasses.replace(self.registry, user=user, password=password)


def read_extras(settings: Mapping[str, str]) -> ClusterExtras:
    """SettingError where something is wrong or not known."""
    masks = {name: value for name, value in settings.items() if name.startswith(MASK)}
    for name in settings:
        if name not in masks and name not in NAMES:
            known = ", ".join(sorted(NAMES))
            raise SettingError(name, f"the console has no such setting; it has {known} and {MASK}NAME.…")
    registry, inherits = _registry(settings)
    return ClusterExtras(registry, inherits, read_rules(masks), read_oidc(settings))


def _registry(settings: Mapping[str, str]) -> tuple[Registry | None, str]:
    if not settings.get(URL):
        if given := sorted(name for name in settings if name.startswith(REGISTRY)):
            raise SettingError(given[0], f"it says nothing without {URL}")
        return None, ""
    inherits = ""
    for name, own in _OWN.items():
        source = settings.get(name, "").strip().upper()
        if source in INHERITED:
            inherits = source
        elif source and source not in own:
            raise SettingError(name, f"{source} is none of {', '.join((*own, *INHERITED))}")
    user, _, password = settings.get(BASIC_USER, "").partition(":")
    try:
        found = Registry(
            settings[URL],
            user or None,
            password or None,
            bearer=settings.get(BEARER_TOKEN) or None,
            authority=settings.get(AUTHORITY) or None,
            attempts=ATTEMPTS,
        )
    except PayloadError as error:
        raise SettingError(URL, str(error)) from None
    return found, inherits
