"""An OpenID provider, as the console asks it: where people log in, tokens for a code, and fresh ones later.

The authorization code flow with PKCE (RFC 7636). What the provider says of itself is read at its issuer's
well-known address and believed only where it names that issuer. An ID token counts when `JwtValidator` takes
it (a key of the issuer, the issuer, this client as audience, its time) and it has the nonce of this login;
there is no way to leave one of these out. The functions block: whoever runs a loop calls them in a thread.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.security.sasl.jwt_validator import JsonWebKeys, JwtValidator
from headrace.security.sasl.oauthbearer import InvalidTokenError
from headrace.security.system_http import check_url, fetch_url
from headrace.settings.definition import SettingError

PREFIX: Final = "oidc."
ISSUER: Final = "oidc.issuer"
CLIENT_ID: Final = "oidc.client.id"
CLIENT_SECRET: Final = "oidc.client.secret"
SCOPE: Final = "oidc.scope"
REDIRECT: Final = "oidc.redirect.url"
USER_CLAIM: Final = "oidc.user.claim"
NAMES: Final = frozenset({ISSUER, CLIENT_ID, CLIENT_SECRET, SCOPE, REDIRECT, USER_CLAIM})

CALLBACK: Final = "/oidc/callback"
KNOWN_S: Final = 3600.0
"""What a provider says of itself is read again after this."""
KEYS_SOONER_S: Final = 10.0
KEPT: Final = 0.8
"""Of a token's time, as in Kafka (sasl.login.refresh.window.factor)."""

Fetch = Callable[..., bytes]


class OidcError(Exception):
    """A login that does not come about; the text is for the person, and has no token in it."""


@dataclass(frozen=True, slots=True)
class OidcSpec:
    """The settings. Without a redirect URL it is the console's address, as the browser has it."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scope: str = "openid"
    redirect_url: str = ""
    user_claim: str = "sub"


def read_oidc(settings: Mapping[str, str]) -> OidcSpec | None:
    """None where nothing is set; SettingError where something is missing."""
    given = {name: settings.get(name, "").strip() for name in NAMES}
    if not any(given.values()):
        return None
    for name in (ISSUER, CLIENT_ID):
        if not given[name]:
            raise SettingError(name, f"logins by OIDC need {ISSUER} and {CLIENT_ID}")
    try:
        check_url(given[ISSUER])
    except ValueError as error:
        raise SettingError(ISSUER, str(error)) from None
    if given[REDIRECT] and not given[REDIRECT].endswith(CALLBACK):
        raise SettingError(REDIRECT, f"it is the console's address and {CALLBACK}")
    scope = given[SCOPE] or "openid"
    if "openid" not in scope.split():
        raise SettingError(SCOPE, "without 'openid' the provider does not say who logs in")
    user_claim = given[USER_CLAIM] or "sub"
    return OidcSpec(given[ISSUER], given[CLIENT_ID], given[CLIENT_SECRET], scope, given[REDIRECT], user_claim)


class Endpoints(NamedTuple):
    """Where a provider has what."""

    authorization: str
    token: str
    keys: str


class Grant(NamedTuple):
    """What a login has given."""

    user: str
    access_token: str = ""
    refresh_token: str = ""
    lasts_s: float = 0.0

    def __repr__(self) -> str:
        return f"Grant({self.user!r})"


class OidcProvider:
    """See above."""

    def __init__(
        self,
        spec: OidcSpec,
        *,
        fetch: Fetch = fetch_url,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.spec = spec
        self._fetch = fetch
        self._keys = JsonWebKeys(self._on_unknown)
        self._validator = JwtValidator(
            self._keys, spec.issuer, [spec.client_id], now_ms, user_claim=spec.user_claim
        )
        self._endpoints: Endpoints | None = None
        self._read_s = self._keys_read_s = -KNOWN_S
        self._is_unknown = False
        self._lock = threading.Lock()

    def endpoints(self) -> Endpoints:
        """OidcError where the provider does not say, or says that it is somebody else."""
        with self._lock:
            if self._endpoints is None or time.monotonic() - self._read_s > KNOWN_S:
                found = self._discovered()
                self._read_keys(found)
                self._endpoints, self._read_s = found, time.monotonic()
            return self._endpoints

    def _discovered(self) -> Endpoints:
        url = f"{self.spec.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._asked(url)
        if found.get("issuer") != self.spec.issuer:
            raise OidcError(f"what {url} says is of another issuer")
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        places = [found.get(each) for each in names]
        for name, place in zip(names, places, strict=True):
            try:
                check_url(str(place or ""))
            except ValueError as error:
                raise OidcError(f"the provider's {name} cannot be used: {error}") from None
        return Endpoints(*map(str, places))

    def _read_keys(self, endpoints: Endpoints) -> None:
        self._keys_read_s = time.monotonic()
        try:
            self._keys.load(self._fetch(endpoints.keys))
        except (OSError, ValueError) as error:
            raise OidcError(f"the provider's keys cannot be read: {error}") from None

    def _on_unknown(self) -> None:
        self._is_unknown = True

    def authorization_url(self, *, state: str, nonce: str, verifier: str, redirect_url: str) -> str:
        """Where the browser goes."""
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.spec.client_id,
            "redirect_uri": redirect_url,
            "scope": self.spec.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        place = self.endpoints().authorization
        return f"{place}{'&' if '?' in place else '?'}{urllib.parse.urlencode(query)}"

    def exchange(self, code: str, *, verifier: str, redirect_url: str, nonce: str) -> Grant:
        """A code for tokens; OidcError unless all of it is right."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_url}
        found = self._tokens({**form, "code_verifier": verifier})
        return self._granted(found, self._user(found.get("id_token"), nonce))

    def refresh(self, grant: Grant) -> Grant:
        """Fresh tokens for the same person."""
        found = self._tokens({"grant_type": "refresh_token", "refresh_token": grant.refresh_token})
        if found.get("id_token") is not None and self._user(found["id_token"], None) != grant.user:
            raise OidcError("the provider's fresh tokens are somebody else's")
        made = self._granted(found, grant.user)
        return made if made.refresh_token else made._replace(refresh_token=grant.refresh_token)

    def _tokens(self, form: Mapping[str, str]) -> dict[str, Any]:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        body = {**form, "client_id": self.spec.client_id}
        if self.spec.client_secret:
            words = ":".join(
                urllib.parse.quote_plus(e) for e in (self.spec.client_id, self.spec.client_secret)
            )
            headers["Authorization"] = "Basic " + base64.b64encode(words.encode()).decode()
        place = self.endpoints().token
        return self._asked(place, data=urllib.parse.urlencode(body).encode(), headers=headers)

    def _granted(self, found: Mapping[str, Any], user: str) -> Grant:
        access, refresh, lasts = (found.get(each) for each in ("access_token", "refresh_token", "expires_in"))
        if not isinstance(access, str) or not access:
            raise OidcError("the provider gave no token for the cluster")
        lasts_s = float(lasts) if isinstance(lasts, int | float) and not isinstance(lasts, bool) else 0.0
        return Grant(user, access, refresh if isinstance(refresh, str) else "", lasts_s)

    def _user(self, id_token: Any, nonce: str | None) -> str:
        """Who it is; OidcError unless the ID token is right. Without a nonce it is one of a refresh."""
        if not isinstance(id_token, str):
            raise OidcError("the provider did not say who has logged in: it gave no ID token")
        try:
            user = self._valid(id_token)
            claims = json.loads(self._keys.verified(id_token))
        except InvalidTokenError as error:
            raise OidcError(f"the provider's ID token is not accepted: {error}") from None
        if nonce is not None and not secrets.compare_digest(
            str(claims.get("nonce")).encode(), nonce.encode()
        ):
            raise OidcError("the provider's ID token is of another login")
        parties = claims.get("aud")
        is_for_several = isinstance(parties, list) and len(parties) > 1
        if (is_for_several or "azp" in claims) and claims.get("azp") != self.spec.client_id:
            raise OidcError("the provider's ID token was made for another client")
        return user

    def _valid(self, id_token: str) -> str:
        """The issuer may have new keys: they are read once more, and not for each token that is made up."""
        self._is_unknown = False
        try:
            return self._validator(id_token).principal_name
        except InvalidTokenError:
            endpoints = self.endpoints()
            if not self._is_unknown or time.monotonic() - self._keys_read_s < KEYS_SOONER_S:
                raise
            with self._lock:
                self._read_keys(endpoints)
            return self._validator(id_token).principal_name

    def _asked(self, url: str, **more: Any) -> dict[str, Any]:
        try:
            found = json.loads(self._fetch(url, **more))
        except (OSError, ValueError, RecursionError) as error:
            raise OidcError(f"the provider at {_bare(url)} cannot be asked: {error}") from None
        if not isinstance(found, dict):
            raise OidcError(f"the provider at {_bare(url)} gave no answer that is one")
        return found


def _bare(url: str) -> str:
    return url.partition("?")[0]


class PersonsToken:
    """One person's token for the cluster, made fresh while the provider does that. Threads may ask."""

    def __init__(
        self, provider: OidcProvider, grant: Grant, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._provider = provider
        self._grant = grant
        self._clock = clock
        self._lock = threading.Lock()
        self._kept_until = clock() + grant.lasts_s * KEPT
        self._over_at = clock() + grant.lasts_s

    def __call__(self) -> str:
        """OidcError where there is none any more: the person logs in again."""
        with self._lock:
            now = self._clock()
            if self._grant.lasts_s and now >= self._kept_until:
                self._renew(now)
            return self._grant.access_token

    def _renew(self, now: float) -> None:
        if not self._grant.refresh_token:
            if now >= self._over_at:
                raise OidcError("the login is over: log in again")
            return
        try:
            self._grant = self._provider.refresh(self._grant)
        except OidcError:
            if now >= self._over_at:
                raise
            return  # it is good for a while, and is tried again at the next login
        self._kept_until = now + self._grant.lasts_s * KEPT
        self._over_at = now + self._grant.lasts_s
