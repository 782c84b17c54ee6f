"""How clients log in at each SASL listener of a node: mechanisms, users and limits, out of its settings.

A setting holds for a mechanism of a listener (`listener.name.NAME.MECHANISM.`), for a listener, or for all of
them, the first that is set. Users of PLAIN are in the listener's JAAS line, which can be replaced while the
node runs; those of SCRAM in the metadata image; OAUTHBEARER's are whom the issuer's tokens name, GSSAPI's
whom the KDC knows (`kerberos_listener.py`). A listener whose settings would let in nobody, or anybody, keeps
the node from starting.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from headrace.base.clock import Clock
from headrace.controller.delegation_token_control import SECRET as TOKEN_SECRET
from headrace.controller.delegation_token_control import is_expired
from headrace.metadata.image import MetadataImage
from headrace.metadata.security import ScramKey
from headrace.security.delegation_token import salt_of, token_credential
from headrace.security.jwks_refresher import JwksRefresher
from headrace.security.login import JAAS, check_mechanism, new_client, read_jaas
from headrace.security.oauth_login import endpoint_token
from headrace.security.sasl.jwt_validator import JwtValidator
from headrace.security.sasl.mechanism import GSSAPI, OAUTHBEARER, PLAIN, SaslClient, SaslServer
from headrace.security.sasl.oauthbearer import OAuthBearerServer
from headrace.security.sasl.plain import PlainServer
from headrace.security.sasl.scram import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from headrace.security.sasl.scram_server import ScramServer, TokenCredential
from headrace.security.system_http import fetch_url
from headrace.server.sasl_server_authenticator import SaslListener
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError, Value
from headrace.settings.listeners import ListenerEndpoint

JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
ISSUER: Final = "sasl.oauthbearer.expected.issuer"
AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
ENABLED: Final = "sasl.enabled.mechanisms"
SECRET_BYTES: Final = 32

logger = logging.getLogger(__name__)

NewServer = Callable[[], SaslServer]


class SaslListeners:
    """Makes the `SaslListener` of each listener that has SASL."""

    def __init__(
        self,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        read_file: Callable[[str], bytes],
        fetch: Callable[[str], bytes] = fetch_url,
    ) -> None:
        self._read_file = read_file
        self._fetch = fetch
        self._refreshers: list[JwksRefresher] = []
        self._config = config
        self._image = image
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._secret = rng.randbytes(SECRET_BYTES)
        self._users: dict[str, Mapping[str, str]] = {}  # by the JAAS line that has them

    def of(
        self,
        endpoint: ListenerEndpoint,
        on_raw_failure: Callable[[str, str], None] = lambda host, mechanism: None,
    ) -> SaslListener:
        """SettingError where nobody could log in."""
        config, name = self._config, endpoint.name
        mechanisms = enabled_mechanisms(config, name)
        reauth_ms = {each: self._number(name, each, "connections.max.reauth.ms") for each in mechanisms}
        return SaslListener(
            name,
            {each: self._new_server(name, each) for each in mechanisms},
            loop=self._loop,
            now_ms=self._clock.now_ms,
            reauth_ms=reauth_ms,
            failed_delay_ms=config.int("connection.failed.authentication.delay.ms"),
            frame_bytes_max=self._number(name, "", "sasl.server.max.receive.size"),
            on_raw_failure=on_raw_failure,
        )

    def _number(self, listener: str, mechanism: str, name: str) -> int:
        value = mechanism_value(self._config, listener, mechanism, name)
        assert isinstance(value, int), f"{name} is a number"
        return value

    def _new_server(self, listener: str, mechanism: str) -> NewServer:
        if mechanism == PLAIN:
            self._plain_users(listener)  # now, so that a wrong line is told at the start
            return lambda: PlainServer(self._plain_users(listener))
        if mechanism == OAUTHBEARER:
            return self._oauth_server(listener)
        if mechanism == GSSAPI:
            # Most machines need no Kerberos.
            from headrace.node.kerberos_listener import new_gssapi_server

            def get(name: str) -> Value:
                return mechanism_value(self._config, listener, GSSAPI, name)

            return new_gssapi_server(get, jaas_setting(listener, GSSAPI))
        scram = SCRAM_MECHANISMS[mechanism]
        text = mechanism_value(self._config, listener, mechanism, JAAS)
        if isinstance(text, str) and text:
            read_jaas(text, mechanism, jaas_setting(listener, mechanism))
        return lambda: ScramServer(
            scram,
            self._scram_user,
            self._token,
            random_bytes=self._rng.randbytes,
            secret=self._secret,
        )

    def _oauth_server(self, listener: str) -> NewServer:
        """Tokens are accepted for what the settings name, or the node does not start."""

        def value(name: str) -> Any:
            return mechanism_value(self._config, listener, OAUTHBEARER, name)

        text, setting = value(JAAS), jaas_setting(listener, OAUTHBEARER)
        if text and any(
            each.startswith("unsecured") for each in read_jaas(text, OAUTHBEARER, setting).options
        ):
            raise SettingError(setting, "tokens without a signature are not taken: leave unsecured… out")
        for name in (JWKS, ISSUER, AUDIENCE):
            if not value(name):
                raise SettingError(name, f"listener {listener} takes OAUTHBEARER, and no token without it")
        refresher = JwksRefresher(
            value(JWKS),
            refresh_ms=value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            loop=self._loop,
            read_file=self._read_file,
            fetch=self._fetch,
        )
        try:
            refresher.start()
        except (OSError, ValueError) as error:
            raise SettingError(JWKS, f"no keys could be read: {error}") from None
        validate = JwtValidator(
            refresher.keys,
            value(ISSUER),
            value(AUDIENCE),
            self._clock.now_ms,
            skew_s=value("sasl.oauthbearer.clock.skew.seconds"),
            user_claim=value("sasl.oauthbearer.sub.claim.name"),
            scope_claim=value("sasl.oauthbearer.scope.claim.name"),
        )
        self._refreshers.append(refresher)
        return lambda: OAuthBearerServer(validate)

    def close(self) -> None:
        """The node stops."""
        for each in self._refreshers:
            each.close()

    def _plain_users(self, listener: str) -> Mapping[str, str]:
        setting = jaas_setting(listener, PLAIN)
        text = self._config.get(setting)
        if not isinstance(text, str) or not text:
            raise SettingError(setting, 'PLAIN needs it: PlainLoginModule required user_NAME="PASSWORD";')
        if text not in self._users:
            try:
                self._users = {text: read_jaas(text, PLAIN, setting).users}
            except SettingError as wrong:
                if not self._users:
                    raise
                logger.warning("the users of %s stay as they were: %s", listener, wrong)
                self._users = {text: next(iter(self._users.values()))}
        return self._users[text]

    def _scram_user(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        record = self._image().security.scram.get(ScramKey(name, mechanism.number))
        if record is None:
            return None
        return ScramCredential(
            bytes(record.salt), record.iterations, bytes(record.stored_key), bytes(record.server_key)
        )

    def _token(self, token_id: str, mechanism: ScramMechanism) -> TokenCredential | None:
        record, secret = self._image().security.tokens.get(token_id), self._config.str(TOKEN_SECRET)
        if record is None or not secret or is_expired(record, self._clock.now_ms()):
            return None
        salt = salt_of(token_id, self._secret, mechanism)
        credential = token_credential(secret, token_id, mechanism, salt)
        ends_ms = min(record.max_timestamp, record.expiration_timestamp)
        return TokenCredential(credential, record.owner.partition(":")[2], ends_ms)


def enabled_mechanisms(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    """What a listener offers; SettingError for a mechanism that is not known."""
    value = mechanism_value(config, listener, "", ENABLED)
    assert isinstance(value, tuple), f"{ENABLED} is a list"
    for each in value:
        check_mechanism(each, ENABLED)
    if not value:
        raise SettingError(ENABLED, f"listener {listener} has SASL and no mechanism")
    return value


def jaas_setting(listener: str, mechanism: str) -> str:
    """The name of a mechanism's JAAS line, as Kafka wants it."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS}"


def mechanism_value(config: BrokerConfig, listener: str, mechanism: str, name: str) -> Value:
    """A setting as it holds for a mechanism of a listener."""
    prefix = f"listener.name.{listener.lower()}."
    prefixes = (f"{prefix}{mechanism.lower()}.", prefix) if mechanism else (prefix,)
    for each in prefixes:
        value = config.get(each + name)
        if value is not None:
            return value
    return config.get(name)


def login_of_node(
    config: BrokerConfig, listener: str, rng: random.Random
) -> tuple[str, Callable[[str], Awaitable[SaslClient]]] | None:
    """How this node logs in where it connects to that listener of others: the mechanism, and what begins a
    login. None where nodes do not talk to each other there. SettingError where it could not."""
    if listener in config.controller_listener_names:
        setting = "sasl.mechanism.controller.protocol"
    elif listener == config.inter_broker_listener_name:
        setting = "sasl.mechanism.inter.broker.protocol"
    else:
        return None
    mechanism = config.str(setting)
    check_mechanism(mechanism, setting)

    def get(name: str) -> Value:
        return mechanism_value(config, listener, mechanism, name)

    jaas = jaas_setting(listener, mechanism)
    begin = new_client(
        mechanism,
        get,
        random_bytes=rng.randbytes,
        get_token=endpoint_token(get, fetch_url, jaas) if mechanism == OAUTHBEARER else None,
        jaas_setting=jaas,
    )
    return mechanism, begin
