"""How a client's connections are made, by its security.protocol."""

import random
from typing import TYPE_CHECKING, Final

from headrace.clients.config import ClientConfig
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder

if TYPE_CHECKING:
    from headrace.security.login import GetToken

TOKEN_PROVIDER: Final = "sasl.oauthbearer.token.provider"


def channel_builder_of(config: ClientConfig) -> ChannelBuilder:
    """The builder of a client's connections; SettingError where its settings or files are wrong."""
    # Many clients need neither TLS nor SASL, and are made sooner without them.
    protocol = config.str("security.protocol").upper()
    below = _ssl(config) if protocol.endswith("SSL") else PLAINTEXT
    return _sasl(config, below) if protocol.startswith("SASL_") else below


def _ssl(config: ClientConfig) -> ChannelBuilder:
    from headrace.security.ssl_channel_builder import SslChannelBuilder
    from headrace.security.ssl_settings import SslSettings

    return SslChannelBuilder(SslSettings.read(config.get), _read_file, serves=False)


def _sasl(config: ClientConfig, below: ChannelBuilder) -> ChannelBuilder:
    from headrace.security.login import (
        CREDENTIALS_PROVIDER,
        check_mechanism,
        new_client,
        provided_credentials,
    )
    from headrace.security.sasl_channel_builder import SaslChannelBuilder

    mechanism = config.str("sasl.mechanisms") or config.str("sasl.mechanism")
    check_mechanism(mechanism, "sasl.mechanism")
    chance = random.SystemRandom()  # others must not be able to guess it
    provide = config.given.get(CREDENTIALS_PROVIDER)
    begin = new_client(
        mechanism,
        config.get,
        random_bytes=chance.randbytes,
        get_token=_get_token(config) if mechanism == "OAUTHBEARER" else None,
        get_credentials=provided_credentials(provide) if callable(provide) else None,
    )
    return SaslChannelBuilder(below, mechanism, begin, chance)


def _get_token(config: ClientConfig) -> "GetToken | None":
    from headrace.security.oauth_login import endpoint_token, provided_token
    from headrace.security.system_http import fetch_url

    provide = config.given.get(TOKEN_PROVIDER)
    return provided_token(provide) if callable(provide) else endpoint_token(config.get, fetch_url)


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
