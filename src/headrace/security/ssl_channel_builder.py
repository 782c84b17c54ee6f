"""Connections of the security protocol SSL, made out of Kafka's settings (Kafka's SslFactory).

Stores are replaced as a whole (`reconfigure`): who is connected stays, who comes next meets the new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.security.ssl_engine_factory import SslEngines, load_engines
from headrace.security.ssl_principal_mapper import SslPrincipalMapper, distinguished_name
from headrace.security.ssl_reconfiguration import check_replacement
from headrace.security.ssl_settings import SslSettings
from headrace.security.stores import ReadFile
from headrace.settings.definition import SettingError
from headrace.transport.channel_builder import ANONYMOUS
from headrace.transport.network import Socket
from headrace.transport.tls import TlsError, TlsSocket

if TYPE_CHECKING:
    from headrace.transport.client_connection import ClientConnection


class SslChannelBuilder:
    """TLS for one listener, or for a client. `serves`: a server cannot do without a key store."""

    def __init__(self, settings: SslSettings, read_file: ReadFile, *, serves: bool) -> None:
        self.settings = settings
        self._read_file = read_file
        self.engines, self._contents = self._load(settings)
        self._principals = SslPrincipalMapper(
            settings.principal_mapping_rules, settings.name("ssl.principal.mapping.rules")
        )
        if serves and self.engines.server is None:
            raise SettingError(
                settings.name("ssl.keystore.location"),
                "a listener with TLS needs a private key and its certificate: set it, or ssl.keystore.key "
                "and ssl.keystore.certificate.chain",
            )

    def _load(self, settings: SslSettings) -> tuple[SslEngines, dict[str, bytes]]:
        """The engines, and what was in the files that they came from."""
        contents: dict[str, bytes] = {}

        def read(path: str) -> bytes:
            contents[path] = self._read_file(path)
            return contents[path]

        return load_engines(settings, read), contents

    # Replacing stores

    def check(self, settings: SslSettings, *, trusts_own: bool) -> None:
        """SettingError where these settings, and what is in their files now, cannot take over."""
        if self._is_other(settings):
            check_replacement(self.engines, self._load(settings)[0], settings, trusts_own=trusts_own)

    def reconfigure(self, settings: SslSettings, *, trusts_own: bool, in_use: bool = True) -> bool:
        """Serve newcomers by these settings and files; whether they are others. SettingError where they
        cannot take over: all stays as it is. Before it is `in_use` nobody knows the former names."""
        if not self._is_other(settings):
            return False
        engines, contents = self._load(settings)
        if in_use:
            check_replacement(self.engines, engines, settings, trusts_own=trusts_own)
        self.settings, self.engines, self._contents = settings, engines, contents
        return True

    def _is_other(self, settings: SslSettings) -> bool:
        return settings != self.settings or any(map(self._has_changed, self._contents))

    def _has_changed(self, path: str) -> bool:
        try:
            return self._read_file(path) != self._contents[path]
        except OSError:
            return True  # what is wrong is told when it is loaded

    def server_socket(self, socket: Socket) -> Socket:
        assert self.engines.server is not None, "a listener's builder has a key store"
        return TlsSocket(socket, self.engines.server, server_side=True)

    def client_socket(self, socket: Socket, host: str) -> Socket:
        try:
            return TlsSocket(socket, self.engines.client, server_side=False, server_name=host)
        except ValueError as error:
            raise TlsError(f"TLS: {host!r} is no name that a certificate could be for: {error}") from error

    async def authenticate(self, connection: ClientConnection, host: str) -> None:
        """The handshake has done all that there is to do."""

    def principal_of(self, socket: Socket) -> str:
        """The user that the client's certificate stands for; TlsError where no rule fits it."""
        certificate = socket.peer_certificate if isinstance(socket, TlsSocket) else None
        if certificate is None:
            return ANONYMOUS
        name = distinguished_name(certificate)
        user = self._principals.name_of(name)
        if user is None:
            raise TlsError(f"TLS: no rule of ssl.principal.mapping.rules fits the certificate of {name}")
        return f"User:{user}"
