"""The door to other people's web servers: an issuer's keys, a provider's tokens. Small, and suspicious.

Only https, or http to this very machine, is asked: what an address could reach otherwise (files, services
inside) is nobody's business who may only set an address (CVE-2025-27817). A redirection is not followed, an
answer has a bound. The calls block: whoever runs a loop makes them in a thread.
"""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

ANSWER_BYTES_MAX: Final = 1 << 20
"""A set of keys has some thousand bytes."""

TIMEOUT_S: Final = 10.0
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def check_url(url: str) -> None:
    """ValueError unless this address may be asked."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in _LOOPBACK:
        return
    raise ValueError("only https addresses are asked, and http ones of this machine")


def fetch_url(url: str, *, data: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
    """The body of the answer to GET, or to POST with `data`; OSError or ValueError where there is none."""
    check_url(url)
    request = urllib.request.Request(url, data=data, headers=dict(headers or {}))
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler())
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        raise OSError(f"the answer is HTTP {error.code}") from None
    if len(body) > ANSWER_BYTES_MAX:
        raise ValueError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    return body
