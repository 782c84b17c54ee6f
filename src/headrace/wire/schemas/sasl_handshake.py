"""SaslHandshake (17), v0-1: choose a SASL mechanism.

After v0 the mechanism's bytes follow without a Kafka header; after v1 they travel in SaslAuthenticate.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, message


@message(api_key=17, versions=range(2))
class SaslHandshakeRequest:
    mechanism: str = ""


@message(api_key=17, versions=range(2))
class SaslHandshakeResponse:
    error_code: int16 = 0
    mechanisms: list[str] = field(default_factory=list)
