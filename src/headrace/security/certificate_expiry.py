"""How long a listener's certificates are good for, said in the log: when they are loaded, and daily in the
last month."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from cryptography import x509

from headrace.security.ssl_principal_mapper import name_text

logger = logging.getLogger(__name__)

DAY_MS: Final = 24 * 3600 * 1000
SOON_MS: Final = 30 * DAY_MS
"""From here on it is a warning: time enough to get a new one."""


class CertificateExpiry:
    """Tells of one listener's certificates."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._told_ms: int | None = None

    def tell_anew(self) -> None:
        """The certificates are others now."""
        self._told_ms = None

    def tell(self, chain: Sequence[x509.Certificate], now_ms: int) -> None:
        """Say when the first of them ends, unless that was said and is far away, or was said today."""
        first = min(chain, key=ends_ms)
        left_ms = ends_ms(first) - now_ms
        if self._told_ms is not None and (left_ms > SOON_MS or now_ms - self._told_ms < DAY_MS):
            return
        self._told_ms = now_ms
        days, who = left_ms // DAY_MS, name_text(first.subject)
        if left_ms <= 0:
            logger.error(
                "listener %s: the certificate of %s has expired: nobody who verifies it connects any more. "
                "Replace ssl.keystore.*",
                *(self._listener, who),
            )
        elif left_ms <= SOON_MS:
            logger.warning(
                "listener %s: the certificate of %s expires in %d days: replace ssl.keystore.* before",
                *(self._listener, who, days),
            )
        else:
            logger.info("listener %s: the certificate of %s is good for %d days", self._listener, who, days)


def ends_ms(certificate: x509.Certificate) -> int:
    """When it expires, in milliseconds since the epoch."""
    return int(certificate.not_valid_after_utc.timestamp() * 1000)
