"""Names of cipher suites: settings have Java's (IANA's), OpenSSL has its own for those before TLS 1.3.

TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384 there. OpenSSL's names are taken as well.
"""

import re
from collections.abc import Iterable


def openssl_names(suites: Iterable[str]) -> tuple[list[str], list[str]]:
    """OpenSSL's names of these suites: of TLS 1.2, and of TLS 1.3."""
    older, newer = [], []
    for suite in suites:
        if suite.startswith("TLS_") and "_WITH_" not in suite:
            newer.append(suite)
        else:
            older.append(_older_name(suite))
    return older, newer


def _older_name(suite: str) -> str:
    exchange, found, cipher = suite.partition("_WITH_")
    if not found:
        return suite
    exchange = exchange.removeprefix("TLS_").removeprefix("SSL_").replace("_", "-")
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(128|256)", r"\1\2", cipher)
    if cipher == "CHACHA20_POLY1305_SHA256":
        cipher = "CHACHA20_POLY1305"
    cipher = cipher.replace("_CBC", "").replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"
